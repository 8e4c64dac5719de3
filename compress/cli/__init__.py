"""The commands, one file each: what they take, whom they call, what they print. Nothing here decides anything."""
