//! What signals do, and handlers of them for a while.

use libc::{c_int, c_void};

/// What a signal does now; what it does by default, for a number that is no signal's.
pub(crate) fn disposition(signal: c_int) -> libc::sigaction {
    // SAFETY: zero is a valid sigaction (SIG_DFL is 0), and the pointer is to a live one.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut now);
        now
    }
}

/// Takes handlers away: the signals do what they do by default. What is ignored stays ignored.
pub(crate) fn forget_handlers(signals: impl IntoIterator<Item = c_int>) {
    for signal in signals {
        if ![libc::SIG_DFL, libc::SIG_IGN].contains(&disposition(signal).sa_sigaction) {
            // SAFETY: the default is always a valid disposition.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}

/// A handler; the kernel tells it also who has sent the signal.
pub(crate) type Handler = extern "C" fn(c_int, *const libc::siginfo_t, *const c_void);

/// What signals did before they were given a handler. They do it again when this is dropped.
pub(crate) struct Handled<const N: usize>([(c_int, libc::sigaction); N]);

impl<const N: usize> Handled<N> {
    /// Gives signals a handler; what is ignored stays ignored. `flags` are those of sigaction(2).
    /// Without `SA_RESTART` among them a call that sleeps is woken.
    ///
    /// # Safety
    /// The handler must do only what handlers may do: see signal-safety(7).
    pub(crate) unsafe fn new(signals: [c_int; N], handler: Handler, flags: c_int) -> Handled<N> {
        Handled(signals.map(|signal| {
            let before = disposition(signal);
            if before.sa_sigaction != libc::SIG_IGN {
                // SAFETY: zero is a valid sigaction, the pointer is to a live one, and the caller
                // answers for the handler.
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

    /// Puts back what was before.
    pub(crate) fn put_back(&self) {
        for (signal, before) in &self.0 {
            // SAFETY: `before` is what sigaction filled in.
            unsafe { libc::sigaction(*signal, before, std::ptr::null_mut()) };
        }
    }
}

impl<const N: usize> Drop for Handled<N> {
    fn drop(&mut self) {
        self.put_back();
    }
}
