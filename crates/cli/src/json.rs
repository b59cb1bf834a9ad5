//! JSON of the library crates' types.

use std::ops::Deref;

use base::runs::Times;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use show::json_object;

/// Wraps a library crate's value for JSON output. The orphan rule permits no `impl Serialize` for a
/// foreign type; a command's `show.rs` implements it for this wrapper by [`json_object!`].
pub(crate) struct Json<'a, T: ?Sized>(pub(crate) &'a T);

impl<T: ?Sized> Deref for Json<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0
    }
}

impl<T> Serialize for Json<'_, [T]>
where
    for<'a> Json<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Json))
    }
}

/// Serializes a list whose values are generated one by one, because many long paths take much
/// memory.
pub(crate) fn list_of<S: Serializer, T>(
    serializer: S,
    values: impl Iterator<Item = T>,
) -> Result<S::Ok, S::Error>
where
    for<'a> Json<'a, T>: Serialize,
{
    let mut list = serializer.serialize_seq(None)?;
    for value in values {
        list.serialize_element(&Json(&value))?;
    }
    list.end()
}

impl<T> Serialize for Json<'_, Option<T>>
where
    for<'a> Json<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_ref().map(Json).serialize(serializer)
    }
}

json_object!(Json<'_, Times>, |times| {
    "real": times.real,
    "user": times.user,
    "sys": times.sys,
});
