//! End-to-end tests of `fathom list`, and of the archives that it and others read: made by GNU tar
//! and bsdtar and read by us, made by our own layer and read by GNU tar, bsdtar and Python.

mod compressed;
mod hostile;
mod made;
mod usage;
mod written;
