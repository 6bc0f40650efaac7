"""torch's Adam for a worker that compiles nothing."""

from __future__ import annotations

import inspect

import torch


class Adam(torch.optim.Adam):
    """The same steps to the bit, without the doors to torch.compile around them.

    These import all of `torch._dynamo` at the first call (pytorch#104053 is why they are there): two fifths of the processor time
    that a rank takes to start, and 120 MB.
    """

    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))
    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Adam.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Adam.load_state_dict)
