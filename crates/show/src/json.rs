//! The envelope of every command's `--json`, and [`json_object!`](crate::json_object), which writes
//! a value as a JSON object.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

/// The number of calls and errors of one system call.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct GateCounts {
    /// The number of calls, including failed ones.
    pub calls: u64,
    /// The number of failed calls.
    pub errors: u64,
    /// Wall time in the calls; only while profiling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// Delays of fathom's own system calls by options such as `--max-rate`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Delays {
    /// Delays by `--max-rate`.
    pub max_rate: Delay,
}

/// The delays that one option caused.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Delay {
    /// The number of delays.
    pub number: u64,
    /// The sum of the delays over all threads.
    pub seconds: f64,
}

/// System calls by name.
pub type Gates = BTreeMap<&'static str, GateCounts>;

/// A warning: an entry that was skipped, or a fault that was found.
#[derive(Clone, Debug)]
pub struct Warning {
    /// The path that the warning is about.
    pub path: Option<Vec<u8>>,
    /// The system call that failed.
    pub gate: Option<&'static str>,
    /// The name of the error: `EACCES`.
    pub errno: Option<Cow<'static, str>>,
    /// The problem, its consequence, and a hint, in words.
    pub message: String,
}

crate::json_object!(Warning, |warning| {
    name "path": warning.path.as_deref(),
    "gate": warning.gate,
    "errno": warning.errno,
    "message": warning.message,
});

/// `{"schema": ..., "result": ..., "figures": ..., "gates": ..., "warnings": ...}`
#[derive(Clone, Debug, Serialize)]
pub struct Envelope<R, F> {
    /// `fathom.<command>/1`
    pub schema: &'static str,
    /// The result of the command.
    pub result: R,
    /// Measured values, in the form that all commands share; `None` if the command measures
    /// nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figures: Option<F>,
    /// When the measurement ended, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<i64>,
    /// The name of the host that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The system calls of fathom itself.
    pub gates: Gates,
    /// The delays of system calls, if any were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delays: Option<Delays>,
    /// Warnings about skipped or inconsistent parts.
    pub warnings: Vec<Warning>,
}

impl<F> Envelope<(), F> {
    /// The JSON before and after the result, for a result that is written piece by piece.
    pub fn envelope_parts(&self) -> (String, String) {
        let (schema, gates) = (to_json(self.schema), to_json(&self.gates));
        let warnings = to_json(&self.warnings);
        (
            format!("{{\"schema\":{schema},\"result\":"),
            format!(",\"gates\":{gates},\"warnings\":{warnings}}}\n"),
        )
    }
}

impl<R: Serialize, F: Serialize> Envelope<R, F> {
    /// The envelope as one line of JSON.
    pub fn to_line(&self) -> String {
        to_json(self) + "\n"
    }

    /// Writes the envelope as one line of JSON, piece by piece.
    ///
    /// # Errors
    /// The errors of the writer.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut to, self)?;
        to.write_all(b"\n")
    }
}

/// Serializes a value. Writing to a string fails only for maps whose keys are no strings.
fn to_json(value: impl Serialize) -> String {
    serde_json::to_string(&value).unwrap_or_default()
}

/// Implements [`serde::Serialize`] for a type: a JSON object with these fields, in this order.
///
/// Each line is `"field": value`; `some "field": option`, which is left out for `None`; `name
/// "field": bytes` for a file name of any bytes (`Option<&[u8]>`; with `name?`, the field is left
/// out for `None`); or `names "field": list` for several names (`Option<&[_]>`). For a name that is
/// not UTF-8, `name` and `names` add a sibling `<field>_b64` with the exact bytes (see
/// [`crate::name::entry`]).
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
    (@ $map:ident, name? $field:literal: $name:expr, $($rest:tt)*) => {
        if let Some(name) = $name {
            $crate::name::entry(&mut $map, $field, Some(name))?;
        }
        $crate::json_object!(@ $map, $($rest)*);
    };
    (@ $map:ident, names $field:literal: $names:expr, $($rest:tt)*) => {
        $crate::name::entries(&mut $map, $field, $names)?;
        $crate::json_object!(@ $map, $($rest)*);
    };
    (@ $map:ident, some $field:literal: $value:expr, $($rest:tt)*) => {
        if let Some(value) = $value {
            $map.serialize_entry($field, &value)?;
        }
        $crate::json_object!(@ $map, $($rest)*);
    };
    (@ $map:ident, $field:literal: $value:expr, $($rest:tt)*) => {
        $map.serialize_entry($field, &$value)?;
        $crate::json_object!(@ $map, $($rest)*);
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_result_make_the_line() {
        let warnings = vec![Warning {
            path: Some(b"a\xff".to_vec()),
            gate: Some("statx"),
            errno: Some("EACCES".into()),
            message: "null".to_owned(),
        }];
        let envelope = Envelope {
            schema: "fathom.walk/1",
            result: (),
            figures: None::<()>,
            when: None,
            host: None,
            gates: [("statx", GateCounts::default())].into(),
            delays: None,
            warnings,
        };
        let (before, after) = envelope.envelope_parts();
        assert_eq!(format!("{before}null{after}"), envelope.to_line());
        let mut written = Vec::new();
        envelope.write(&mut written).unwrap();
        assert_eq!(written, envelope.to_line().as_bytes());
    }
}
