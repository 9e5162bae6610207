"""The traffic of parallel training: what data, tensor, pipeline and expert parallelism exchange (docs/collectives.md).

profile   a profile, read from a YAML file and checked
routing   which experts the tokens of a step go to
phases    the phases of a profile at one GPU, every byte compared
figures   time and bandwidth of a phase, from what all GPUs report
"""
