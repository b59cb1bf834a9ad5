//! The page.

use super::Survey;

pub(super) fn html(_survey: &Survey<'_>) -> String {
    String::new()
}
