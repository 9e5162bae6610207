#inclued <core.p4>
