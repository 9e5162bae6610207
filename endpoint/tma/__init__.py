"""RDMA: messages of any size, in blocks that may take any plane and come in any order (docs/protocol.md section 3).

blocks         which blocks of a message are placed, and the bitmap that says so
source         what a GPU writes to others and reads from them: sends, sends again, gives up
target         what others write to a GPU and read from it: places each block once, answers
notifications  what the target's program learns of completed messages
unit           the three together, under the engine's lock
"""
