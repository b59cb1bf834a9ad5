//! A macro that makes a system call and counts it.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::c_long;

/// An argument of a system call. The kernel takes each as a word, and uses the lower half of it for
/// a 32-bit argument.
pub(crate) trait Argument {
    fn word(self) -> c_long;
}

macro_rules! integer_arguments {
    ($($integer:ty)*) => {
        $(impl Argument for $integer {
            #[inline]
            fn word(self) -> c_long {
                self as c_long
            }
        })*
    };
}
integer_arguments!(i32 u32 i64 u64 usize);

impl Argument for BorrowedFd<'_> {
    #[inline]
    fn word(self) -> c_long {
        self.as_raw_fd().into()
    }
}

impl Argument for &CStr {
    #[inline]
    fn word(self) -> c_long {
        self.as_ptr().word()
    }
}

impl<T> Argument for *const T {
    #[inline]
    fn word(self) -> c_long {
        self.expose_provenance() as c_long
    }
}

impl<T> Argument for *mut T {
    #[inline]
    fn word(self) -> c_long {
        self.expose_provenance() as c_long
    }
}

/// Makes one system call through its gate, which counts the call: `syscall!(gate, arguments...)`.
///
/// # Safety
/// The arguments must be those of the call; the kernel may access the memory that they point to, as
/// that call does.
macro_rules! syscall {
    ($gate:expr $(, $argument:expr)* $(,)?) => {
        $crate::meter::pass($gate, || {
            use $crate::syscall::Argument;
            $crate::errno::check(libc::syscall($gate.number() $(, Argument::word($argument))*))
        })
    };
}
pub(crate) use syscall;
