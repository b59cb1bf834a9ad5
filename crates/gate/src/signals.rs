//! Dispositions of signals, and temporary handlers.

use libc::{c_int, c_void};

/// The disposition of a signal; the default disposition for an invalid number.
pub(crate) fn disposition(signal: c_int) -> libc::sigaction {
    // SAFETY: zero is a valid sigaction (SIG_DFL is 0), and the pointer is to a live one.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut now);
        now
    }
}

/// Sets a signal to `SIG_DFL` or `SIG_IGN`.
pub(crate) fn set_disposition(signal: c_int, to: libc::sighandler_t) {
    debug_assert!([libc::SIG_DFL, libc::SIG_IGN].contains(&to));
    // SAFETY: both are always valid dispositions.
    unsafe { libc::signal(signal, to) };
}

/// Blocks signals in the calling thread and in threads that it starts, and returns the set of these
/// signals. [pthread_sigmask(3)](https://man7.org/linux/man-pages/man3/pthread_sigmask.3.html)
pub(crate) fn block(signals: &[c_int]) -> libc::sigset_t {
    // SAFETY: zero is a valid sigset_t, and the pointers are to a live one or null.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        set
    }
}

/// Resets signals that have a handler to the default. Ignored signals stay ignored.
pub(crate) fn forget_handlers(signals: impl IntoIterator<Item = c_int>) {
    for signal in signals {
        if ![libc::SIG_DFL, libc::SIG_IGN].contains(&disposition(signal).sa_sigaction) {
            set_disposition(signal, libc::SIG_DFL);
        }
    }
}

/// A signal handler that gets information on the sender.
pub(crate) type Handler = extern "C" fn(c_int, *const libc::siginfo_t, *const c_void);

/// The previous dispositions of signals that got a handler; dropping this restores them.
pub(crate) struct HandledSignals<const N: usize>([(c_int, libc::sigaction); N]);

impl<const N: usize> HandledSignals<N> {
    /// Installs a handler for signals; ignored signals stay ignored. `flags` are those of
    /// sigaction(2).
    ///
    /// # Safety
    /// The handler must be async-signal-safe: see signal-safety(7).
    pub(crate) unsafe fn new(
        signals: [c_int; N],
        handler: Handler,
        flags: c_int,
    ) -> HandledSignals<N> {
        HandledSignals(signals.map(|signal| {
            let before = disposition(signal);
            if before.sa_sigaction != libc::SIG_IGN {
                // SAFETY: zero is a valid sigaction, the pointer is to a live one, and the caller
                // guarantees that the handler is safe.
                unsafe {
                    let mut now: libc::sigaction = std::mem::zeroed();
                    now.sa_sigaction = handler as *const () as usize;
                    now.sa_flags = libc::SA_SIGINFO | flags;
                    libc::sigaction(signal, &raw const now, std::ptr::null_mut());
                }
            }
            (signal, before)
        }))
    }

    pub(crate) fn put_back(&self) {
        for (signal, before) in &self.0 {
            // SAFETY: sigaction filled in `before`.
            unsafe { libc::sigaction(*signal, before, std::ptr::null_mut()) };
        }
    }
}

impl<const N: usize> Drop for HandledSignals<N> {
    fn drop(&mut self) {
        self.put_back();
    }
}
