"""Settings that every test shares."""

from __future__ import annotations

import os

# Two test processes on two shared cores fight over spinning threads; one passive thread each does not.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("YOLO_AUTOINSTALL", "false")
