//! The envelope of every command's `--json`, and [`json_object!`](crate::json_object), which writes
//! a value as a JSON object.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

/// What passed one gate.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct GateRow {
    /// Calls, failed ones included.
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Wall time in the calls; only while profiling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// What passed each gate, by name.
pub type Gates = BTreeMap<&'static str, GateRow>;

/// Something that was skipped or found wrong.
#[derive(Clone, Debug)]
pub struct Warning {
    /// The name it is about.
    pub path: Option<Vec<u8>>,
    /// The gate that failed.
    pub gate: Option<&'static str>,
    /// The error's name: `EACCES`.
    pub errno: Option<Cow<'static, str>>,
    /// What it means, and what to do next.
    pub message: String,
}

crate::json_object!(Warning, |warning| {
    name "path": warning.path.as_deref(),
    "gate": warning.gate,
    "errno": warning.errno,
    "message": warning.message,
});

/// `{"schema": ..., "result": ..., "gates": ..., "warnings": ...}`
#[derive(Clone, Debug, Serialize)]
pub struct Envelope<'a, R> {
    /// `fathom.<command>/1`
    pub schema: &'static str,
    /// What was asked for.
    pub result: R,
    /// What it cost.
    pub gates: &'a Gates,
    /// What was skipped or found wrong.
    pub warnings: &'a [Warning],
}

impl Envelope<'_, ()> {
    /// The line without its result, which belongs between the two parts: for one that is written as
    /// it comes.
    pub fn around(&self) -> (String, String) {
        let line = self.to_line();
        let (before, behind) = line.split_once("null").unwrap_or_default();
        (before.to_owned(), behind.to_owned())
    }
}

impl<R: Serialize> Envelope<'_, R> {
    /// As one line.
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}

/// Implements [`serde::Serialize`] for a type: a JSON object with these fields, in this order.
///
/// Each line is `"field": value`, or `name "field": bytes` for a file name of any bytes
/// (`Option<&[u8]>`), or `names "field": list` for several (`&[&[u8]]`); these two have a sibling
/// `<field>_b64` with the exact bytes where a name is not UTF-8 (see [`crate::name::entry`]).
///
/// ```
/// struct Copied { from: Vec<u8>, bytes: u64 }
/// show::json_object!(Copied, |copied| {
///     name "from": Some(&copied.from),
///     "bytes": copied.bytes,
///     "is_empty": copied.bytes == 0,
/// });
/// let copied = Copied { from: b"a\xff".to_vec(), bytes: 7 };
/// let json = show::serde_json::to_value(&copied).unwrap();
/// assert_eq!(json["from_b64"], "Yf8=");
/// assert_eq!((&json["bytes"], &json["is_empty"]), (&7.into(), &false.into()));
/// ```
#[macro_export]
macro_rules! json_object {
    ($type:ty, |$value:ident| { $($fields:tt)* }) => {
        impl $crate::serde::Serialize for $type {
            fn serialize<S: $crate::serde::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                use $crate::serde::ser::SerializeMap;
                let $value = self;
                let mut map = serializer.serialize_map(None)?;
                $crate::json_object!(@ map, $($fields)*);
                map.end()
            }
        }
    };
    (@ $map:ident,) => {};
    (@ $map:ident, name $field:literal: $name:expr, $($rest:tt)*) => {
        $crate::name::entry(&mut $map, $field, $name)?;
        $crate::json_object!(@ $map, $($rest)*);
    };
    (@ $map:ident, names $field:literal: $names:expr, $($rest:tt)*) => {
        $crate::name::entries(&mut $map, $field, $names)?;
        $crate::json_object!(@ $map, $($rest)*);
    };
    (@ $map:ident, $field:literal: $value:expr, $($rest:tt)*) => {
        $map.serialize_entry($field, &$value)?;
        $crate::json_object!(@ $map, $($rest)*);
    };
}
