"""The commands of `python -m edge_runtime`. One file per command: `add(parser)` and `execute(arguments)`.

Importing them imports the standard library alone; numpy and engines are imported when a command is executed.
"""
