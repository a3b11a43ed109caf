"""A GPU process that does what it is told, one line at a time.

    open I    hold GPU I
    close     let the last one go
    fork I    let a child, by fork alone, hold GPU I; prints its pid
    keep      let a child, by fork alone, keep duplicates of all descriptors; prints its pid
    kill PID  end such a child
    exec ...  become another program
Every line is answered by one line on standard output when it is done.
"""

import os
import signal
import socket
import struct
import sys

OPEN = 1
MEMORY_BYTES = 64 << 20


def hold(gpu):
    held = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    held.connect(os.environ["NVSIM_SOCKET"])
    held.send(struct.pack("<BIQBII", OPEN, gpu, MEMORY_BYTES, 1, 100, 50))
    code = struct.unpack_from("<I", held.recv(65536))[0]
    if code != 0:
        sys.exit(f"the simulated driver refuses: {code}")
    return held


def child_holds(gpu):
    ready, done = os.pipe()
    pid = os.fork()
    if pid == 0:
        held = hold(gpu)
        os.write(done, b".")
        signal.pause()
        held.close()
    os.close(done)
    os.read(ready, 1)
    os.close(ready)
    return pid


def child_keeps():
    pid = os.fork()
    if pid == 0:
        signal.pause()
    return pid


def main():
    held = []
    for line in sys.stdin:
        word, *rest = line.split()
        answer = "done"
        if word == "open":
            held.append(hold(int(rest[0])))
        elif word == "close":
            held.pop().close()
        elif word == "fork":
            answer = str(child_holds(int(rest[0])))
        elif word == "keep":
            answer = str(child_keeps())
        elif word == "kill":
            os.kill(int(rest[0]), signal.SIGKILL)
            os.waitpid(int(rest[0]), 0)
        elif word == "exec":
            os.execvp(rest[0], rest)
        print(answer, flush=True)


main()
