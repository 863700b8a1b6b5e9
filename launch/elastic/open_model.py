# SPDX-License-Identifier: BSD-3-Clause
"""open_model.py MODEL EMA: opens both with plain torch.load, and tells what they hold."""
import sys

import torch

model, average = (torch.load(path, weights_only=True) for path in sys.argv[1:])
parameters = [name for name in model if name.startswith("net.")]
print(f"{sys.argv[1]}: {len(model)} tensors, {sum(model[name].numel() for name in parameters)} parameters")
print(f"{sys.argv[2]}: {len(average)} tensors")
if sorted(average) != sorted(parameters) or any(not torch.equal(average[n], model[n.replace("net.", "net_ema.", 1)]) for n in parameters):
    sys.exit("the average is not what net_ema.* holds")
if not all(torch.isfinite(tensor).all() for tensor in model.values()):
    sys.exit("not all parameters are finite")
