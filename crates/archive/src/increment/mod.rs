//! What must be dumped so that a restore of the dumps before, and then of this one, gives the tree as it is now.
//!
//! | room | what is in it |
//! |---|---|
//! | `compare` | which entries are as the catalog says, and what becomes of each |
//! | `moves` | which directories can be renamed into their places |

mod compare;
#[cfg(test)]
mod model;
mod moves;
