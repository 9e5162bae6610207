"""Build EthLink fabrics in Mininet: topologies, node classes, and the launcher (`python -m topologies`)."""
