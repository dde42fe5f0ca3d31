#!/usr/bin/env python3
"""Write adam.json: steps of torch.optim.AdamW and Adam on two small parameters, in fp64 and fp32.

usage: make_optim_golden.py OUTPUT_DIR        needs: torch
"""
import json, pathlib, sys
import torch

STEPS, LR, BETAS, EPS, DECAY, MAX_NORM = 6, 0.03, (0.9, 0.95), 1e-8, 0.1, 2.0


def run(kind, dtype, start, gradients):
    parameters = [torch.nn.Parameter(p.clone().to(dtype)) for p in start]
    optimizer = kind(parameters, lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY, foreach=False)
    norms = []
    for step in gradients:
        for parameter, gradient in zip(parameters, step):
            parameter.grad = gradient.clone().to(dtype)
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, MAX_NORM, foreach=False).item())
        optimizer.step()
    flat = lambda tensors: [v for t in tensors for v in t.detach().double().flatten().tolist()]
    states = [optimizer.state[p] for p in parameters]
    return {"norms": norms, "parameters": flat(parameters), "exp_avg": flat([s["exp_avg"] for s in states]),
            "exp_avg_sq": flat([s["exp_avg_sq"] for s in states])}


torch.manual_seed(7)
shapes = [(8, 5), (7,)]
start = [torch.randn(s) for s in shapes]
gradients = [[torch.randn(s) * scale for s in shapes] for scale in (0.05, 1.0, 3.0, 0.01, 1.0, 0.2)]
gradients[3][1].zero_()
golden = {"lr": LR, "betas": BETAS, "eps": EPS, "weight_decay": DECAY, "max_norm": MAX_NORM, "shapes": shapes,
          "start": [v for t in start for v in t.double().flatten().tolist()],
          "gradients": [[v for t in step for v in t.double().flatten().tolist()] for step in gradients]}
for name, kind in (("AdamW", torch.optim.AdamW), ("Adam", torch.optim.Adam)):
    for dtype in (torch.float64, torch.float32):
        golden[f"{name}.{str(dtype).removeprefix('torch.')}"] = run(kind, dtype, start, gradients)
pathlib.Path(sys.argv[1], "adam.json").write_text(json.dumps(golden))
