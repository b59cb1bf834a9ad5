/* What the kernel's interfaces cost without a meter: the floor under fathom account.
 *
 *     floor bpf COMMAND...              programs that do nothing at raw tracepoints sys_enter and sys_exit
 *     floor clock COMMAND...            the same, and each reads the clock
 *     floor ptrace CALL,... COMMAND...  two stops at each of these calls, by number, and PTRACE_GET_SYSCALL_INFO at each
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    exit(125);
}

static int bpf(int command, union bpf_attr *attr) { return syscall(SYS_bpf, command, attr, sizeof *attr); }

static void attach(const char *tracepoint, int reads_clock) {
    const struct bpf_insn clock = {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_ktime_get_ns};
    const struct bpf_insn zero = {.code = BPF_ALU64 | BPF_MOV | BPF_K};
    const struct bpf_insn leave = {.code = BPF_JMP | BPF_EXIT};
    struct bpf_insn code[3];
    int n = 0;
    if (reads_clock) code[n++] = clock;
    code[n++] = zero;
    code[n++] = leave;
    union bpf_attr load = {.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT, .insn_cnt = n};
    load.insns = (unsigned long)code;
    load.license = (unsigned long)"GPL";
    int program = bpf(BPF_PROG_LOAD, &load);
    if (program < 0) fail("BPF_PROG_LOAD");
    union bpf_attr open = {.raw_tracepoint = {.name = (unsigned long)tracepoint, .prog_fd = program}};
    if (bpf(BPF_RAW_TRACEPOINT_OPEN, &open) < 0) fail("BPF_RAW_TRACEPOINT_OPEN"); /* until this process ends */
}

static void filter(char *calls) {
    struct sock_filter code[600] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    int n = 1;
    for (char *call = strtok(calls, ","); call && n < 590; call = strtok(NULL, ",")) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, atoi(call), 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) fail("seccomp");
}

/* Until the first child has ended. */
static int follow(pid_t root) {
    struct __ptrace_syscall_info info;
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0) fail("waitpid");
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (pid == root) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        int sig = WSTOPSIG(status), event = status >> 16, how = PTRACE_CONT;
        if (event == PTRACE_EVENT_SECCOMP || sig == (SIGTRAP | 0x80)) {
            ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info);
            if (event) how = PTRACE_SYSCALL;
            sig = 0;
        } else if (event) {
            sig = 0;
        }
        ptrace(how, pid, 0, sig);
    }
}

int main(int argc, char **argv) {
    int go[2], is_ptrace = argc > 3 && !strcmp(argv[1], "ptrace");
    if (argc < 3) return fprintf(stderr, "usage: floor bpf|clock|ptrace CALL,... COMMAND...\n"), 2;
    char **command = argv + 2 + is_ptrace, byte = 0;
    if (pipe(go)) fail("pipe");
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child == 0) {
        close(go[1]);
        if (read(go[0], &byte, 1) != 1) _exit(125);
        close(go[0]);
        if (is_ptrace) filter(argv[2]);
        execvp(*command, command);
        fail(*command);
    }
    close(go[0]);
    if (is_ptrace) {
        long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                       PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
        if (ptrace(PTRACE_SEIZE, child, 0, options)) fail("PTRACE_SEIZE");
    } else {
        attach("sys_exit", argv[1][0] == 'c');
        attach("sys_enter", argv[1][0] == 'c');
    }
    if (write(go[1], &byte, 1) != 1) fail("write");
    close(go[1]);
    if (is_ptrace) return follow(child);
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
