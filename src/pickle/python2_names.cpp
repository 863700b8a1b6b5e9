// SPDX-License-Identifier: BSD-3-Clause
#include "pickle/python2_names.hpp"

#include <map>

namespace cairn::pickle {
namespace {

enum Direction { both, to_3, to_2 };

struct ModuleRow {
  std::string_view python2, python3;
  Direction direction;
};

struct NameRow {
  std::string_view module2, name2, module3, name3;
  Direction direction;
};

// clang-format off
constexpr ModuleRow kModules[] = {
    {"BaseHTTPServer", "http.server", both},
    {"CGIHTTPServer", "http.server", to_3},
    {"ConfigParser", "configparser", both},
    {"Cookie", "http.cookies", both},
    {"Dialog", "tkinter.dialog", both},
    {"DocXMLRPCServer", "xmlrpc.server", to_3},
    {"FileDialog", "tkinter.filedialog", to_3},
    {"HTMLParser", "html.parser", both},
    {"Queue", "queue", both},
    {"ScrolledText", "tkinter.scrolledtext", both},
    {"SimpleDialog", "tkinter.simpledialog", to_3},
    {"SimpleHTTPServer", "http.server", to_3},
    {"SimpleXMLRPCServer", "xmlrpc.server", both},
    {"SocketServer", "socketserver", both},
    {"StringIO", "io", to_3},
    {"Tix", "tkinter.tix", both},
    {"Tkconstants", "tkinter.constants", both},
    {"Tkdnd", "tkinter.dnd", both},
    {"Tkinter", "tkinter", both},
    {"UserDict", "collections", to_3},
    {"UserList", "collections", to_3},
    {"UserString", "collections", to_3},
    {"__builtin__", "builtins", both},
    {"_abcoll", "collections.abc", both},
    {"_elementtree", "xml.etree.ElementTree", to_3},
    {"_winreg", "winreg", both},
    {"anydbm", "dbm", both},
    {"cPickle", "pickle", to_3},
    {"cStringIO", "io", to_3},
    {"commands", "subprocess", both},
    {"cookielib", "http.cookiejar", both},
    {"copy_reg", "copyreg", both},
    {"dbhash", "dbm.bsd", both},
    {"dbm", "dbm.ndbm", both},
    {"dumbdbm", "dbm.dumb", both},
    {"dummy_thread", "_dummy_thread", both},
    {"gdbm", "dbm.gnu", both},
    {"htmlentitydefs", "html.entities", both},
    {"httplib", "http.client", both},
    {"markupbase", "_markupbase", both},
    {"repr", "reprlib", both},
    {"robotparser", "urllib.robotparser", both},
    {"test.test_support", "test.support", both},
    {"thread", "_thread", both},
    {"tkColorChooser", "tkinter.colorchooser", both},
    {"tkCommonDialog", "tkinter.commondialog", both},
    {"tkFileDialog", "tkinter.filedialog", both},
    {"tkFont", "tkinter.font", both},
    {"tkMessageBox", "tkinter.messagebox", both},
    {"tkSimpleDialog", "tkinter.simpledialog", both},
    {"ttk", "tkinter.ttk", both},
    {"urllib2", "urllib.request", both},
    {"urlparse", "urllib.parse", both},
    {"whichdb", "dbm", to_3},
    {"xmlrpclib", "xmlrpc.client", both},
    {"bz2", "_bz2", to_2},
    {"dbm", "_dbm", to_2},
    {"functools", "_functools", to_2},
    {"gdbm", "_gdbm", to_2},
    {"pickle", "_pickle", to_2},
};

constexpr NameRow kNames[] = {
    {"UserDict", "IterableUserDict", "collections", "UserDict", both},
    {"UserDict", "UserDict", "collections", "UserDict", to_3},
    {"UserList", "UserList", "collections", "UserList", both},
    {"UserString", "UserString", "collections", "UserString", both},
    {"__builtin__", "basestring", "builtins", "str", to_3},
    {"__builtin__", "intern", "sys", "intern", both},
    {"__builtin__", "long", "builtins", "int", both},
    {"__builtin__", "reduce", "functools", "reduce", both},
    {"__builtin__", "unichr", "builtins", "chr", both},
    {"__builtin__", "unicode", "builtins", "str", both},
    {"__builtin__", "xrange", "builtins", "range", both},
    {"_multiprocessing", "Connection", "multiprocessing.connection", "Connection", both},
    {"_socket", "fromfd", "socket", "fromfd", both},
    {"exceptions", "StandardError", "builtins", "Exception", to_3},
    {"itertools", "ifilter", "builtins", "filter", both},
    {"itertools", "ifilterfalse", "itertools", "filterfalse", both},
    {"itertools", "imap", "builtins", "map", both},
    {"itertools", "izip", "builtins", "zip", both},
    {"itertools", "izip_longest", "itertools", "zip_longest", both},
    {"multiprocessing", "AuthenticationError", "multiprocessing.context", "AuthenticationError", both},
    {"multiprocessing", "BufferTooShort", "multiprocessing.context", "BufferTooShort", both},
    {"multiprocessing", "ProcessError", "multiprocessing.context", "ProcessError", both},
    {"multiprocessing", "TimeoutError", "multiprocessing.context", "TimeoutError", both},
    {"multiprocessing.forking", "Popen", "multiprocessing.popen_fork", "Popen", both},
    {"multiprocessing.process", "Process", "multiprocessing.context", "Process", both},
    {"socket", "_socketobject", "socket", "SocketType", to_3},
    {"urllib", "ContentTooShortError", "urllib.error", "ContentTooShortError", both},
    {"urllib", "getproxies", "urllib.request", "getproxies", both},
    {"urllib", "pathname2url", "urllib.request", "pathname2url", both},
    {"urllib", "quote", "urllib.parse", "quote", both},
    {"urllib", "quote_plus", "urllib.parse", "quote_plus", both},
    {"urllib", "unquote", "urllib.parse", "unquote", both},
    {"urllib", "unquote_plus", "urllib.parse", "unquote_plus", both},
    {"urllib", "url2pathname", "urllib.request", "url2pathname", both},
    {"urllib", "urlcleanup", "urllib.request", "urlcleanup", both},
    {"urllib", "urlencode", "urllib.parse", "urlencode", both},
    {"urllib", "urlopen", "urllib.request", "urlopen", both},
    {"urllib", "urlretrieve", "urllib.request", "urlretrieve", both},
    {"urllib2", "HTTPError", "urllib.error", "HTTPError", both},
    {"urllib2", "URLError", "urllib.error", "URLError", both},
    {"whichdb", "whichdb", "dbm", "whichdb", both},
    {"__builtin__", "reduce", "_functools", "reduce", to_2},
    {"socket", "_socketobject", "_socket", "socket", to_2},
    {"exceptions", "OSError", "builtins", "BrokenPipeError", to_2},
    {"exceptions", "OSError", "builtins", "ChildProcessError", to_2},
    {"exceptions", "OSError", "builtins", "ConnectionAbortedError", to_2},
    {"exceptions", "OSError", "builtins", "ConnectionError", to_2},
    {"exceptions", "OSError", "builtins", "ConnectionRefusedError", to_2},
    {"exceptions", "OSError", "builtins", "ConnectionResetError", to_2},
    {"exceptions", "OSError", "builtins", "FileExistsError", to_2},
    {"exceptions", "OSError", "builtins", "FileNotFoundError", to_2},
    {"exceptions", "OSError", "builtins", "InterruptedError", to_2},
    {"exceptions", "OSError", "builtins", "IsADirectoryError", to_2},
    {"exceptions", "ImportError", "builtins", "ModuleNotFoundError", to_2},
    {"exceptions", "OSError", "builtins", "NotADirectoryError", to_2},
    {"exceptions", "OSError", "builtins", "PermissionError", to_2},
    {"exceptions", "OSError", "builtins", "ProcessLookupError", to_2},
    {"exceptions", "OSError", "builtins", "TimeoutError", to_2},
    {"CGIHTTPServer", "CGIHTTPRequestHandler", "http.server", "CGIHTTPRequestHandler", to_2},
    {"SimpleHTTPServer", "SimpleHTTPRequestHandler", "http.server", "SimpleHTTPRequestHandler", to_2},
    {"FileDialog", "FileDialog", "tkinter.filedialog", "FileDialog", to_2},
    {"FileDialog", "LoadFileDialog", "tkinter.filedialog", "LoadFileDialog", to_2},
    {"FileDialog", "SaveFileDialog", "tkinter.filedialog", "SaveFileDialog", to_2},
    {"SimpleDialog", "SimpleDialog", "tkinter.simpledialog", "SimpleDialog", to_2},
    {"DocXMLRPCServer", "DocCGIXMLRPCRequestHandler", "xmlrpc.server", "DocCGIXMLRPCRequestHandler", to_2},
    {"DocXMLRPCServer", "DocXMLRPCRequestHandler", "xmlrpc.server", "DocXMLRPCRequestHandler", to_2},
    {"DocXMLRPCServer", "DocXMLRPCServer", "xmlrpc.server", "DocXMLRPCServer", to_2},
    {"DocXMLRPCServer", "ServerHTMLDoc", "xmlrpc.server", "ServerHTMLDoc", to_2},
    {"DocXMLRPCServer", "XMLRPCDocGenerator", "xmlrpc.server", "XMLRPCDocGenerator", to_2},
};

// exceptions.X and builtins.X
constexpr std::string_view kExceptions[] = {
    "ArithmeticError", "AssertionError", "AttributeError", "BaseException", "BufferError",
    "BytesWarning", "DeprecationWarning", "EOFError", "EnvironmentError", "Exception",
    "FloatingPointError", "FutureWarning", "GeneratorExit", "IOError", "ImportError", "ImportWarning",
    "IndentationError", "IndexError", "KeyError", "KeyboardInterrupt", "LookupError", "MemoryError",
    "NameError", "NotImplementedError", "OSError", "OverflowError", "PendingDeprecationWarning",
    "ReferenceError", "RuntimeError", "RuntimeWarning", "StopIteration", "SyntaxError", "SyntaxWarning",
    "SystemError", "SystemExit", "TabError", "TypeError", "UnboundLocalError", "UnicodeDecodeError",
    "UnicodeEncodeError", "UnicodeError", "UnicodeTranslateError", "UnicodeWarning", "UserWarning",
    "ValueError", "Warning", "ZeroDivisionError"};
// clang-format on

struct Renames {
  std::map<QualifiedName, QualifiedName> names;
  std::map<std::string_view, std::string_view> modules;

  QualifiedName apply(QualifiedName name) const {
    if (const auto renamed = names.find(name); renamed != names.end()) return renamed->second;
    if (const auto moved = modules.find(name.module); moved != modules.end())
      return {moved->second, name.name};
    return name;
  }
};

Renames renames(Direction way) {
  const auto order = [way](auto python2, auto python3) {
    return way == to_3 ? std::pair(python2, python3) : std::pair(python3, python2);
  };
  Renames result;
  for (const auto& row : kModules) {
    if (row.direction == both || row.direction == way) result.modules.insert(order(row.python2, row.python3));
  }
  for (const auto& row : kNames) {
    if (row.direction != both && row.direction != way) continue;
    result.names.insert(order(QualifiedName{row.module2, row.name2}, QualifiedName{row.module3, row.name3}));
  }
  for (const auto name : kExceptions) {
    result.names.insert(order(QualifiedName{"exceptions", name}, QualifiedName{"builtins", name}));
  }
  return result;
}

}  // namespace

QualifiedName to_python3(QualifiedName name) {
  static const Renames table = renames(to_3);
  return table.apply(name);
}

QualifiedName to_python2(QualifiedName name) {
  static const Renames table = renames(to_2);
  return table.apply(name);
}

}  // namespace cairn::pickle
