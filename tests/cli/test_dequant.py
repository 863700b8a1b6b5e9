# SPDX-License-Identifier: BSD-3-Clause
"""--dequant: 8-bit weights with scales become bfloat16, of whatever number of ranks; what does not fit is refused first."""
import json
import struct
import unittest

from program import CliTest
from test_safetensors import contents, file_of

ROWS, COLUMNS = 130, 257


def value(bits):
    """Of a float8_e4m3fn that is no NaN."""
    exponent, fraction = bits >> 3 & 15, bits & 7
    magnitude = fraction * 2.0 ** -9 if exponent == 0 else (8 + fraction) * 2.0 ** (exponent - 10)
    return -magnitude if bits & 128 else magnitude


def bfloat16(number):
    """To nearest, ties to even, by way of float32."""
    bits = struct.unpack("<I", struct.pack("<f", number))[0]
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16


def weights():
    patterns = [bits for bits in range(256) if bits & 127 != 127]
    return bytes(patterns[i * 7 % len(patterns)] for i in range(ROWS * COLUMNS))


SCALES = [0.5, -0.1, 3.0, 1e-3, 1 / 3, 7.77]  # 2 by 3 blocks


def as_float32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def expected():
    bits = weights()
    return b"".join(struct.pack("<H", bfloat16(as_float32(value(bits[i * COLUMNS + j]) * as_float32(SCALES[i // 128 * 3 + j // 128]))))
                    for i in range(ROWS) for j in range(COLUMNS))


class Dequant(CliTest):
    def setUp(self):
        super().setUp()
        self.source = self.folder / "model.safetensors"
        self.tensors = {"w": ("F8_E4M3", [ROWS, COLUMNS], weights()), "w_scale_inv": ("F32", [2, 3], struct.pack("<6f", *SCALES)),
                        "other": ("F32", [2], struct.pack("<2f", 1, 2))}
        self.source.write_bytes(file_of(self.tensors))

    def test_values_names_and_types(self):
        out = self.folder / "out.safetensors"
        result = self.cairn("convert", self.source, out, "--dequant")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr.decode(), "1 tensors of 8-bit floats become bfloat16")
        self.assertIn(b"'w_scale_inv'", result.stderr)
        found = contents(out)
        self.assertEqual(set(found), {"w", "other"})
        self.assertEqual(found["other"], self.tensors["other"])
        self.assertEqual(found["w"][:2], ("BF16", [ROWS, COLUMNS]))
        self.assertEqual(found["w"][2], expected())

    def test_rules_see_bfloat16_and_no_scales(self):
        out = self.folder / "out.safetensors"
        done = self.cairn("convert", self.source, out, "--dequant", "--select", "w", "--rename", "w=v", "--cast", "float32", "--quiet")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        wide = b"".join(struct.pack("<I", bits << 16) for bits, in struct.iter_unpack("<H", expected()))
        self.assertEqual(contents(out), {"v": ("F32", [ROWS, COLUMNS], wide)})
        self.assert_fails(self.cairn("convert", self.source, self.folder / "none.pth", "--dequant", "--select", "*_scale_inv"), 1, "matches none")

    def test_without_the_option_all_stays(self):
        out = self.folder / "out.safetensors"
        self.assert_success(self.cairn("convert", self.source, out))
        self.assertEqual(contents(out), self.tensors)

    def test_what_does_not_fit_is_refused_first(self):
        weight, scale = self.tensors["w"], self.tensors["w_scale_inv"]
        cases = [({"w": weight}, "without a companion NAME_scale_inv: 'w'"), ({"w_scale_inv": scale}, "there is no tensor 'w'"),
                 ({"w": weight, "w_scale_inv": ("F32", [3, 2], scale[2])}, r"has shape \[3, 2\], \[2, 3\] expected"),
                 ({"w": weight, "w_scale_inv": ("F64", [2, 3], bytes(48))}, "float64, float32 expected"),
                 ({"w": ("U8", *weight[1:]), "w_scale_inv": scale}, "the tensor is uint8"), ({"other": self.tensors["other"]}, "none of 1 tensors"),
                 ({"w": ("F8_E4M3", [2, 1, 3], bytes(6)), "w_scale_inv": scale}, "two dimensions expected")]
        for tensors, words in cases:
            with self.subTest(words):
                self.source.write_bytes(file_of(tensors))
                for target in ("out.safetensors", "out.pth", "out"):
                    more = ["--to", "dcp"] if target == "out" else []
                    self.assert_fails(self.cairn("convert", self.source, self.folder / target, "--dequant", *more), 1, words)
                    self.assertEqual([one.name for one in self.folder.iterdir()], [self.source.name])

    def test_a_dry_run_tells_of_it(self):
        plan = self.cairn("convert", self.source, self.folder / "out.pth", "--dequant", "--dry-run", "--json")
        self.assertEqual(plan.returncode, 0, plan.stderr)
        self.assertIn(b"bfloat16", plan.stdout)
        self.assertFalse((self.folder / "out.pth").exists())
        json.loads(plan.stdout)


if __name__ == "__main__":
    unittest.main()
