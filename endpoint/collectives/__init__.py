"""Collective operations on NumPy arrays, over all GPUs of a tenant or some of them (docs/collectives.md).

group           what a program calls: `gpu.group()`
all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, barrier, point_to_point
                one operation each: who sends what to whom, in which order results are reduced
ring            the two halves of ring algorithms, which several operations share
reduction       the operators, and which types they take
call            one operation under way at one GPU
mailbox         messages between GPUs, through slots that are never overwritten before they were read
"""

from endpoint.collectives.group import Algorithm, Group
from endpoint.collectives.reduction import Operator

__all__ = ["Algorithm", "Group", "Operator"]
