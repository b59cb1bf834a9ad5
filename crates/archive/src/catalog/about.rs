//! What a catalog says of itself: the value of the key `fathom.catalog`, as JSON.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gate::btrfs::BTRFS_SUPER_MAGIC;
use gate::fs::{EXT4_SUPER_MAGIC, TMPFS_MAGIC};
use gate::xfs::XFS_SUPER_MAGIC;
use ondisk::Dev;
use serde_json::{Map, Value, json};
use walk::Moment;
use walk::entry::Time;

use super::footer;
use crate::part::Part;
use crate::token::Token;

/// The key in the file's metadata.
pub(crate) const KEY: &str = "fathom.catalog";

/// The version of the format that is written, and the newest that is read.
pub const VERSION: u64 = 1;

/// What was left out of the walk.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The patterns, as they were given.
    pub excludes: Vec<String>,
    /// Nothing deeper than this.
    pub max_depth: Option<u32>,
    /// Only the device of DIR.
    pub one_file_system: bool,
}

/// A directory that a catalog is of, or for the catalog of a dump, a SRC.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Root {
    /// As it was given: what patterns with a slash were held against.
    pub path: Vec<u8>,
    /// Its absolute name, where it is known.
    pub absolute: Option<Vec<u8>>,
}

/// What a catalog says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct About {
    /// What it is of: one DIR, or each SRC of a dump. The column `top` has their numbers.
    pub roots: Vec<Root>,
    /// When the walk began. Whatever has a ctime before this less [`TICK`] was at rest when it was
    /// read.
    pub started: Time,
    /// When it had ended.
    pub finished: Time,
    /// Rows.
    pub entries: u64,
    /// Rows whose ctime is not before [`About::at_rest_before`]: they may change once more without
    /// a new ctime.
    pub racy: u64,
    /// The digest over all entries.
    pub digest: String,
    /// Whether nothing was skipped.
    pub complete: bool,
    /// What was left out.
    pub options: Options,
    /// What the tree is made of.
    pub parts: Vec<Part>,
    /// For each row group, CRC-32 of each column as it stands in the file; of an older catalog
    /// there are none.
    pub checksums: Vec<Vec<u32>>,
}

/// Longer than any tick of a file system's clock: after this time, a change shows in another ctime.
pub const TICK: Duration = Duration::from_millis(20);

/// The time of day.
pub(crate) fn now() -> Time {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => Time {
            sec: since.as_secs().cast_signed(),
            nsec: since.subsec_nanos(),
        },
        Err(_) => Time::default(), // before 1970: as good as any
    }
}

/// A time and [`TICK`].
pub(crate) fn after_a_tick(time: Time) -> Time {
    let nsec = time.nsec + TICK.subsec_nanos();
    Time {
        sec: time.sec.saturating_add((nsec / 1_000_000_000).into()),
        nsec: nsec % 1_000_000_000,
    }
}

/// A time less [`TICK`].
pub(crate) fn before_a_tick(time: Time) -> Time {
    let tick = TICK.subsec_nanos();
    match time.nsec.checked_sub(tick) {
        Some(nsec) => Time { nsec, ..time },
        None => Time {
            sec: time.sec.saturating_sub(1),
            nsec: time.nsec + 1_000_000_000 - tick,
        },
    }
}

/// Waits until a change shows by another time than whatever was changed before `begun` has: until
/// the clock that the kernel gives files their times from has come to that, or where a file system
/// may have times from another one (`magic` is its number), for [`TICK`].
pub(crate) fn wait_for_tick(begun: &Moment, magic: Option<u64>) {
    /// ext2 to ext4, XFS, btrfs, tmpfs.
    const BY_OUR_CLOCK: [u64; 4] = [
        EXT4_SUPER_MAGIC,
        XFS_SUPER_MAGIC,
        BTRFS_SUPER_MAGIC,
        TMPFS_MAGIC,
    ];
    const STEP: Duration = Duration::from_micros(500);
    let is_ours = magic.is_some_and(|magic| BY_OUR_CLOCK.contains(&magic));
    // When the clock is set back meanwhile, it may take any time to come to that.
    while let Some(left) = TICK.checked_sub(begun.elapsed()) {
        if is_ours && gate::clock::of_files() >= begun.time() {
            return;
        }
        std::thread::sleep(if is_ours { left.min(STEP) } else { left });
    }
}

impl About {
    /// What was changed before this, by the file system's clock, was at rest when it was read.
    pub fn at_rest_before(&self) -> Time {
        before_a_tick(self.started)
    }

    pub(crate) fn to_json(&self) -> String {
        let time = |t: Time| json!({ "sec": t.sec, "nsec": t.nsec });
        let mut map = Map::new();
        map.insert("version".into(), VERSION.into());
        map.insert(
            "roots".into(),
            self.roots.iter().map(root_to_json).collect(),
        );
        map.insert("started".into(), time(self.started));
        map.insert("finished".into(), time(self.finished));
        map.insert("entries".into(), self.entries.into());
        map.insert("racy".into(), self.racy.into());
        map.insert("digest".into(), self.digest.clone().into());
        map.insert("complete".into(), self.complete.into());
        let Options {
            excludes,
            max_depth,
            one_file_system,
        } = &self.options;
        let options = json!({ "excludes": excludes, "max_depth": max_depth, "one_file_system": one_file_system });
        map.insert("options".into(), options);
        map.insert(
            "parts".into(),
            self.parts.iter().map(part_to_json).collect(),
        );
        map.insert("checksums".into(), json!(self.checksums));
        map.insert(footer::MEMBER.into(), footer::NOTHING.into());
        Value::Object(map).to_string()
    }

    /// Reads it back.
    ///
    /// # Errors
    /// What is wrong with it, and whether that is because it is from a newer program.
    pub(crate) fn from_json(text: &str) -> Result<About, Strange> {
        let value: Value = serde_json::from_str(text).map_err(|_| Strange::Damaged)?;
        let map = value.as_object().ok_or(Strange::Damaged)?;
        match map.get("version").and_then(Value::as_u64) {
            Some(version) if version > VERSION => return Err(Strange::Newer(version)),
            Some(1..) => {}
            _ => return Err(Strange::Damaged),
        }
        about(map).ok_or(Strange::Damaged)
    }
}

/// Why an [`About`] cannot be understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Strange {
    Damaged,
    Newer(u64),
}

fn about(map: &Map<String, Value>) -> Option<About> {
    let time = |key: &str| {
        let t = map.get(key)?;
        Some(Time {
            sec: t.get("sec")?.as_i64()?,
            nsec: u32::try_from(t.get("nsec")?.as_u64()?).ok()?,
        })
    };
    let number = |key: &str| map.get(key)?.as_u64();
    let options = map.get("options")?;
    let excludes = options
        .get("excludes")?
        .as_array()?
        .iter()
        .map(|v| v.as_str().map(str::to_owned));
    Some(About {
        roots: map
            .get("roots")?
            .as_array()?
            .iter()
            .map(|root| root_of(root.as_object()?))
            .collect::<Option<_>>()?,
        started: time("started")?,
        finished: time("finished")?,
        entries: number("entries")?,
        racy: number("racy")?,
        digest: map.get("digest")?.as_str()?.to_owned(),
        complete: map.get("complete")?.as_bool()?,
        options: Options {
            excludes: excludes.collect::<Option<_>>()?,
            max_depth: options
                .get("max_depth")?
                .as_u64()
                .map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
            one_file_system: options.get("one_file_system")?.as_bool()?,
        },
        parts: map
            .get("parts")?
            .as_array()?
            .iter()
            .map(|part| part_of(part.as_object()?))
            .collect::<Option<_>>()?,
        checksums: match map.get("checksums") {
            Some(checksums) => serde_json::from_value(checksums.clone()).ok()?,
            None => Vec::new(),
        },
    })
}

fn root_to_json(root: &Root) -> Value {
    let mut map = Map::new();
    put(&mut map, "path", Some(&root.path));
    put(&mut map, "absolute", root.absolute.as_deref());
    Value::Object(map)
}

fn root_of(map: &Map<String, Value>) -> Option<Root> {
    Some(Root {
        path: get(map, "path")?,
        absolute: get(map, "absolute"),
    })
}

fn part_to_json(part: &Part) -> Value {
    let mut map = Map::new();
    map.insert("top".into(), part.top.into());
    put(&mut map, "path", Some(&part.path));
    put(&mut map, "fstype", part.fstype.as_deref());
    put(&mut map, "source", part.source.as_deref());
    put(&mut map, "fsroot", part.fsroot.as_deref());
    map.insert("magic".into(), part.magic.into());
    map.insert("fsid".into(), json!(part.fsid));
    map.insert(
        "uuid".into(),
        part.uuid
            .map(|uuid| format!("{:032x}", u128::from_be_bytes(uuid)))
            .into(),
    );
    map.insert("dev".into(), part.dev.to_string().into());
    map.insert("ino".into(), part.ino.into());
    map.insert("engine".into(), part.engine.clone().into());
    map.insert(
        "token".into(),
        part.token.as_ref().map(Token::to_string).into(),
    );
    Value::Object(map)
}

fn part_of(map: &Map<String, Value>) -> Option<Part> {
    let text = |key: &str| map.get(key)?.as_str();
    let number = |key: &str| map.get(key)?.as_u64();
    let (major, minor) = text("dev")?.split_once(':')?;
    Some(Part {
        top: u32::try_from(number("top")?).ok()?,
        path: get(map, "path")?,
        fstype: get(map, "fstype"),
        source: get(map, "source"),
        fsroot: get(map, "fsroot"),
        magic: number("magic")?,
        fsid: serde_json::from_value(map.get("fsid")?.clone()).ok()?,
        uuid: text("uuid")
            .and_then(|hex| u128::from_str_radix(hex, 16).ok())
            .map(u128::to_be_bytes),
        dev: Dev {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        },
        ino: number("ino")?,
        engine: text("engine").map(str::to_owned),
        token: text("token").and_then(|token| token.parse().ok()),
    })
}

/// Enters a name, lossily where it is no UTF-8, and then `<key>_b64` with the name exactly.
fn put(map: &mut Map<String, Value>, key: &str, name: Option<&[u8]>) {
    map.insert(
        key.to_owned(),
        name.map(|name| String::from_utf8_lossy(name).into_owned())
            .into(),
    );
    if let Some(name) = name.filter(|name| std::str::from_utf8(name).is_err()) {
        map.insert(format!("{key}_b64"), STANDARD.encode(name).into());
    }
}

fn get(map: &Map<String, Value>, key: &str) -> Option<Vec<u8>> {
    match map.get(&format!("{key}_b64")) {
        Some(exact) => STANDARD.decode(exact.as_str()?).ok(),
        None => Some(map.get(key)?.as_str()?.as_bytes().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            root in proptest::collection::vec(any::<u8>(), 0..20),
            fstype in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..8)),
            (sec, nsec, entries, magic) in any::<(i64, u32, u64, u64)>(),
            (uuid, major, max_depth) in any::<(Option<[u8; 16]>, u32, Option<u32>)>(),
            excludes in proptest::collection::vec(any::<String>(), 0..3),
            (transactions, has_token) in any::<(u64, bool)>(),
            checksums in any::<Vec<Vec<u32>>>(),
        ) {
            let token = has_token.then(|| format!("ext4 boot b mount 1 transactions {transactions}").parse().unwrap());
            let dev = Dev { major, minor: 1 };
            let part = Part { top: major, path: root.clone(), fstype, magic, uuid, dev, token, ..Part::default() };
            let about = About {
                roots: vec![Root { path: root, absolute: None }, Root { path: Vec::new(), absolute: Some(b"/\xff".to_vec()) }],
                started: Time { sec, nsec },
                entries,
                options: Options { excludes, max_depth, one_file_system: true },
                parts: vec![part.clone(), part],
                checksums,
                ..About::default()
            };
            prop_assert_eq!(About::from_json(&about.to_json()), Ok(about));
        }

        #[test]
        fn no_text_is_too_strange(text in ".*") {
            let _ = About::from_json(&text);
        }
    }

    #[test]
    fn a_newer_version_is_known_as_such() {
        let text = About::default()
            .to_json()
            .replace("\"version\":1", "\"version\":2");
        assert_eq!(About::from_json(&text), Err(Strange::Newer(2)));
        assert_eq!(About::from_json("{}"), Err(Strange::Damaged));
    }

    #[test]
    fn the_clock_of_files_comes_after_what_has_begun() {
        for magic in [Some(0xef53), None] {
            let begun = Moment::now();
            wait_for_tick(&begun, magic);
            assert!(
                gate::clock::of_files() >= begun.time() || begun.elapsed() >= TICK,
                "{magic:?}"
            );
        }
    }

    #[test]
    fn a_tick_before() {
        let at = |sec, nsec| {
            About {
                started: Time { sec, nsec },
                ..About::default()
            }
            .at_rest_before()
        };
        assert_eq!(
            at(5, 30_000_000),
            Time {
                sec: 5,
                nsec: 10_000_000
            }
        );
        assert_eq!(
            at(5, 0),
            Time {
                sec: 4,
                nsec: 980_000_000
            }
        );
    }
}
