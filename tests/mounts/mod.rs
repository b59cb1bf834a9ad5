//! End-to-end tests of `fathom mounts`. Each creates its file systems in its own mount namespace,
//! which requires root.

mod beneath;
mod boundaries;
mod check;
mod compare;
mod counts;
mod dead;
mod fire;
mod formats;
mod fstab;
mod hints;
mod methods;
mod stuck;
mod usage;
mod watch;

/// The values of `--by`.
const METHODS: [&str; 8] = [
    "auto",
    "kernel",
    "mountinfo",
    "search",
    "getmnt3",
    "getmnt2",
    "getmnt1",
    "naive",
];
