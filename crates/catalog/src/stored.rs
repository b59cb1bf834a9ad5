//! Serialization of values in the JSON of a catalog's footer, for `#[serde(with)]`.

use serde::{Deserialize, Serialize};
use walk::entry::Time;

/// Names of arbitrary bytes: `<member>` has the name, lossy if it is not UTF-8; then `<member>_b64`
/// has the exact bytes. For `#[serde(flatten, with)]`.
macro_rules! name {
    ($module:ident, $member:literal, $exact:literal, $type:ty) => {
        pub mod $module {
            use base64::Engine;
            use base64::engine::general_purpose::STANDARD;
            use serde::de::Error;
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            #[derive(Serialize, Deserialize)]
            struct Stored {
                #[serde(rename = $member)]
                lossy: Option<String>,
                #[serde(rename = $exact, skip_serializing_if = "Option::is_none")]
                exact: Option<String>,
            }

            pub fn serialize<S: Serializer>(name: &$type, to: S) -> Result<S::Ok, S::Error> {
                let name: Option<&[u8]> = super::StoredName::bytes(name);
                Stored {
                    lossy: name.map(|name| String::from_utf8_lossy(name).into_owned()),
                    exact: name
                        .filter(|name| std::str::from_utf8(name).is_err())
                        .map(|name| STANDARD.encode(name)),
                }
                .serialize(to)
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                let Stored { lossy, exact } = Stored::deserialize(from)?;
                let name = match exact {
                    Some(exact) => Some(STANDARD.decode(exact).map_err(D::Error::custom)?),
                    None => lossy.map(String::into_bytes),
                };
                super::StoredName::from_bytes(name).ok_or_else(|| D::Error::missing_field($member))
            }
        }
    };
}

name!(path, "path", "path_b64", Vec<u8>);
name!(absolute, "absolute", "absolute_b64", Option<Vec<u8>>);
name!(archive, "archive", "archive_b64", Option<Vec<u8>>);
name!(fstype, "fstype", "fstype_b64", Option<Vec<u8>>);
name!(source, "source", "source_b64", Option<Vec<u8>>);
name!(fsroot, "fsroot", "fsroot_b64", Option<Vec<u8>>);
name!(
    mount_point,
    "mount_point",
    "mount_point_b64",
    Option<Vec<u8>>
);

/// Lists of names: `<member>`, lossy if a name is not UTF-8; then `<member>_b64` has the exact
/// bytes of all. An empty list is stored if `$always`. For `#[serde(flatten, with)]`.
macro_rules! names {
    ($module:ident, $member:literal, $exact:literal, $always:literal) => {
        pub(crate) mod $module {
            use base64::Engine;
            use base64::engine::general_purpose::STANDARD;
            use serde::de::Error;
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            #[derive(Serialize, Deserialize)]
            struct Stored {
                #[serde(rename = $member, default, skip_serializing_if = "Option::is_none")]
                lossy: Option<Vec<String>>,
                #[serde(rename = $exact, default, skip_serializing_if = "Option::is_none")]
                exact: Option<Vec<String>>,
            }

            pub(crate) fn serialize<S: Serializer>(
                names: &[Vec<u8>],
                to: S,
            ) -> Result<S::Ok, S::Error> {
                let lossy = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
                let is_odd = names.iter().any(|name| std::str::from_utf8(name).is_err());
                Stored {
                    lossy: ($always || !names.is_empty())
                        .then(|| names.iter().map(lossy).collect()),
                    exact: is_odd.then(|| names.iter().map(|name| STANDARD.encode(name)).collect()),
                }
                .serialize(to)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<Vec<Vec<u8>>, D::Error> {
                let Stored { lossy, exact } = Stored::deserialize(from)?;
                let names = lossy.into_iter().flatten().map(String::into_bytes);
                let exact =
                    exact.map(|exact| exact.iter().map(|name| STANDARD.decode(name)).collect());
                let exact: Option<Vec<Vec<u8>>> = exact.transpose().map_err(D::Error::custom)?;
                Ok(exact.unwrap_or_else(|| names.collect()))
            }
        }
    };
}

names!(excludes, "excludes", "excludes_b64", true);
names!(
    exclude_if_present,
    "exclude_if_present",
    "exclude_if_present_b64",
    false
);

/// The type of a stored name: required, or optional.
trait StoredName: Sized {
    fn bytes(&self) -> Option<&[u8]>;
    fn from_bytes(bytes: Option<Vec<u8>>) -> Option<Self>;
}

impl StoredName for Vec<u8> {
    fn bytes(&self) -> Option<&[u8]> {
        Some(self)
    }

    fn from_bytes(bytes: Option<Vec<u8>>) -> Option<Self> {
        bytes
    }
}

impl StoredName for Option<Vec<u8>> {
    fn bytes(&self) -> Option<&[u8]> {
        self.as_deref()
    }

    fn from_bytes(bytes: Option<Vec<u8>>) -> Option<Self> {
        Some(bytes)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Time")]
pub struct StoredTime {
    nsec: u32,
    sec: i64,
}

/// A device number, stored as `MAJOR:MINOR`.
pub(crate) mod dev {
    use ondisk::Dev;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(dev: &Dev, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(dev)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Dev, D::Error> {
        let text = String::deserialize(from)?;
        let parsed = text
            .split_once(':')
            .and_then(|(major, minor)| Some(Dev::new(major.parse().ok()?, minor.parse().ok()?)));
        parsed.ok_or_else(|| D::Error::custom("no device number"))
    }
}

/// A value, stored as text. Text that cannot be parsed is read as `None`.
pub mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(T::to_string).serialize(to)
    }

    pub fn deserialize<'de, T: FromStr, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        Ok(text.and_then(|text| text.parse().ok()))
    }
}

/// A UUID, stored as 32 hexadecimal digits.
pub(crate) mod uuid {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        uuid: &Option<[u8; 16]>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let digits = |uuid| format!("{:032x}", u128::from_be_bytes(uuid));
        uuid.map(digits).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<[u8; 16]>, D::Error> {
        let digits = Option::<String>::deserialize(from)?;
        let uuid = digits.map(|digits| u128::from_str_radix(&digits, 16));
        let uuid = uuid.transpose().map_err(D::Error::custom)?;
        Ok(uuid.map(u128::to_be_bytes))
    }
}
