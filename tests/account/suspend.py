"""Suspends and resumes a program in an interactive bash on a terminal.

usage: suspend.py PROGRAM ROUNDS COMMAND...

The command is COMMAND and then the words of PROGRAM: vim, top, or bash. After each suspension the shell must have the terminal with its own
modes, after each resumption the program. The working directory is for files of this script.
"""
import os, pty, re, select, sys, time

program, rounds, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
words = {
    "vim": ["vim", "-u", "NONE", "-N", "text"],
    "top": ["top", "-d", "0.2"],
    "bash": ["bash", "--norc", "--noprofile", "-i"],
}[program]
LIMIT = 600  # only a terminal that is dead exceeds it

child, terminal = pty.fork()
if child == 0:
    environment = {**os.environ, "PS1": "SHELL> ", "TERM": "xterm", "HISTFILE": "", "LC_ALL": "C"}
    os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment)

seen = b""


def wait_until(what, is_so):
    global seen
    end = time.monotonic() + LIMIT
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"{program}: not after {LIMIT} s: {what}; the terminal shows {seen[-2000:]!r}")
        if select.select([terminal], [], [], 0.02)[0]:
            seen += os.read(terminal, 65536)


def shown_since(start, pattern):
    wait_until(pattern, lambda: re.search(pattern, seen[start:]))


def type_and_see(text, pattern):
    start = len(seen)
    os.write(terminal, text)
    shown_since(start, pattern)


def answers(n):
    """Waits until the program does what is typed, or, as top does, prints something new."""
    if program == "top":
        for _ in range(2):
            shown_since(len(seen), rb"load average")
        return
    typed = {"vim": f":w! mark{n}\r", "bash": f"echo x >mark{n}\r"}[program]
    os.write(terminal, typed.encode())
    wait_until(f"{program} writes mark{n}", lambda: os.path.exists(f"mark{n}"))


type_and_see(b"stty -echo\r", rb"SHELL> $")
begin = {"vim": rb"~", "top": rb"load average", "bash": rb"SHELL> "}[program]
type_and_see((" ".join(command + words) + "\r").encode(), begin)
answers(0)
for n in range(1, rounds + 1):
    type_and_see(b"suspend\r" if program == "bash" else b"\x1a", rb"Stopped[^\n]*\n(.|\n)*SHELL> ")
    # Two quotes, so that the echo of the command is not taken for its output.
    type_and_see(b"echo shell''is here; stty -a | grep -c -- ' icanon'\r", rb"shellis here\r\n1\r\n")
    os.write(terminal, b"fg\r")
    answers(n)
quit = {"vim": b":q!\r", "top": b"q", "bash": b"exit\r"}[program]
# Without any meter, top sometimes exits with 1 after it was suspended.
type_and_see(quit, rb"SHELL> ")
type_and_see(b"echo en''ded $?\r", rb"ended [01]\r\n")
os.write(terminal, b"exit\r")
os.waitpid(child, 0)
