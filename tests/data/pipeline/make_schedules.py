#!/usr/bin/env python3
"""Write SCHEDULE_pP_vV_mM.csv: the actions that torch.distributed.pipelining computes, a line per rank, without idle cells.

The files of 1f1b are by hand, after figure 4 of Megatron-LM's paper (arXiv 2104.04473): torch executes that schedule but never lists it right.

usage: make_schedules.py OUTPUT_DIR [SCHEDULE P V M]        needs: torch 2.13
"""
import pathlib, sys
from types import SimpleNamespace
from torch.distributed.pipelining import schedules as torch_schedules

CLASSES = {"gpipe": "ScheduleGPipe", "interleaved_1f1b": "ScheduleInterleaved1F1B", "looped_bfs": "ScheduleLoopedBFS",
           "interleaved_zero_bubble": "ScheduleInterleavedZeroBubble", "zbv_zero_bubble": "ScheduleZBVZeroBubble", "dualpipev": "ScheduleDualPipeV"}
CASES = [("gpipe", 4, 1, 4), ("interleaved_1f1b", 2, 2, 3), ("interleaved_1f1b", 4, 2, 8),
         ("interleaved_1f1b", 4, 3, 6), ("looped_bfs", 2, 2, 4), ("interleaved_zero_bubble", 4, 1, 8), ("interleaved_zero_bubble", 2, 2, 4),
         ("zbv_zero_bubble", 2, 2, 3), ("zbv_zero_bubble", 4, 2, 8), ("dualpipev", 2, 2, 4), ("dualpipev", 4, 2, 10)]


def plain(action):
    """Computing only; overlapped pairs as the two actions that they are made of, in order."""
    if action is None or not action.is_compute_op:
        return []
    return [str(part) for part in action.sub_actions] if action.sub_actions else [str(action)]


def schedule(name, p, v, m):
    """A text per rank. The objects are made without their constructors, which want processes and models."""
    kind = getattr(torch_schedules, CLASSES[name])
    stage = SimpleNamespace(num_stages=p * v, group_size=p)
    self = object.__new__(kind)
    rounds = max(1, m // p)
    self.__dict__.update(pp_group_size=p, _n_microbatches=m, _num_stages=p * v, num_stages=p * v, n_local_stages=v, _stages=[stage] * v, _stage=stage,
                         number_of_rounds=rounds, microbatches_per_round=m // rounds, rank=0)
    lists = self._get_pipeline_order() if name == "gpipe" else [self._calculate_single_rank_operations(rank) for rank in range(p)]
    return [[text for action in lists[rank] for text in plain(action)] for rank in range(p)]


cases = [(sys.argv[2], *map(int, sys.argv[3:6]))] if len(sys.argv) > 2 else CASES
for name, p, v, m in cases:
    lines = [",".join(actions) for actions in schedule(name, p, v, m)]
    pathlib.Path(sys.argv[1], f"{name}_p{p}_v{v}_m{m}.csv").write_text("\n".join(lines) + "\n")
