//! What is being dumped, shared by readers and writer.

use walk::Diagnostics;

use super::users::Users;
use crate::plan::Plan;
use crate::rows::Rows;

/// What is being dumped.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) rows: &'a Rows,
    pub(crate) plan: &'a Plan,
    pub(crate) users: &'a Users,
    pub(crate) desk: &'a Diagnostics,
}
