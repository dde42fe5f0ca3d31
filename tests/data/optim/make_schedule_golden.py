#!/usr/bin/env python3
"""Write schedules.json: learning rate and weight decay of NeMo AutoModel's OptimizerParamScheduler, step by step.

usage: make_schedule_golden.py OUTPUT_DIR SCHEDULER_PY     SCHEDULER_PY: AutoModel's components/optim/scheduler.py;  needs: torch
"""
import importlib.util, json, pathlib, sys
import torch

spec = importlib.util.spec_from_file_location("scheduler", sys.argv[2])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)

BASE = dict(init_lr=1e-5, max_lr=3e-4, min_lr=2e-5, lr_warmup_steps=7, lr_decay_steps=40, lr_decay_style="cosine", start_wd=0.1, end_wd=0.1,
            wd_incr_steps=30, wd_incr_style="constant")
CASES = [dict(), dict(lr_decay_style="constant"), dict(lr_decay_style="linear"), dict(lr_decay_style="inverse-square-root"),
         dict(lr_decay_style="inverse-square-root", lr_warmup_steps=0), dict(lr_warmup_steps=0), dict(init_lr=0.0, lr_warmup_steps=1),
         dict(end_wd=0.4, wd_incr_style="linear"), dict(end_wd=0.4, wd_incr_style="cosine")]
CASES += [dict(lr_decay_style="WSD", wsd_decay_steps=12, lr_wsd_decay_style=style) for style in ("linear", "cosine", "exponential", "minus_sqrt")]
result = []
for case in CASES:
    values = {**BASE, **case}
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = module.OptimizerParamScheduler(optimizer, **values)
    rates, decays = [], []
    for _ in range(46):
        rates.append(optimizer.param_groups[0]["lr"])
        decays.append(optimizer.param_groups[0]["weight_decay"])
        scheduler.step(1)
    values.setdefault("wsd_decay_steps", 0)
    values.setdefault("lr_wsd_decay_style", "exponential")
    result.append({"schedule": values, "lr": rates, "weight_decay": decays})
pathlib.Path(sys.argv[1], "schedules.json").write_text(json.dumps(result))
