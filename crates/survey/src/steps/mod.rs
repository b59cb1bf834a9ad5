//! The steps of a survey: each gathers a part of [`Found`](crate::Found), within its own limits.
//!
//! | module | contents |
//! |---|---|
//! | [`context`] | what a step is given: directory, options, limits; what it reports of its progress |
//! | [`mounts`] | mount points, capacities, the methods to find mounts |
//! | [`walking`] | what a walk, a dump and the system calls of a walk cost |
//! | [`starting`] | what starting programs costs |
//! | [`systems`] | experiments on file systems, prices of system calls |
//! | [`take`] | the table of the steps; takes each in a process of its own |

pub(crate) mod context;
pub(crate) mod mounts;
mod starting;
mod systems;
pub(crate) mod take;
pub(crate) mod walking;
