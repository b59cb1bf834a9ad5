//! Mount points in every format.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ondisk::Dev;
use ondisk::mnttab::escape;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::name::{entry, printable};
use crate::table::{Align, Table, Tone};

/// What lies beneath a mount point.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Beneath {
    /// Files that are no directories.
    pub files: u64,
    /// Bytes in plain files.
    pub bytes: u64,
}

/// A mount point; what is not known or was not asked for is `None`.
#[derive(Clone, Debug)]
pub struct Row {
    /// Id of the mount, as in /proc/self/mountinfo.
    pub id: Option<u64>,
    /// Id of the mount that it is on.
    pub parent: Option<u64>,
    /// Its absolute name.
    pub target: Vec<u8>,
    /// The device or other source.
    pub source: Option<Vec<u8>>,
    /// Type of the file system.
    pub fstype: Option<Vec<u8>>,
    /// Device number.
    pub dev: Dev,
    /// The part of the file system that is mounted.
    pub fsroot: Option<Vec<u8>>,
    /// Options.
    pub options: Option<Vec<Vec<u8>>>,
    /// `dir` or `file`.
    pub kind: Option<&'static str>,
    /// `leaf` or `internal`.
    pub class: &'static str,
    /// Whether no path reaches it.
    pub hidden: bool,
    /// The machine behind it.
    pub server: Option<String>,
    /// Whether it answers.
    pub verdict: Option<&'static str>,
    /// What lies beneath it.
    pub beneath: Option<Beneath>,
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("parent", &self.parent)?;
        entry(&mut map, "target", Some(&self.target))?;
        entry(&mut map, "source", self.source.as_deref())?;
        entry(&mut map, "fstype", self.fstype.as_deref())?;
        map.serialize_entry("dev", &self.dev.to_string())?;
        entry(&mut map, "fsroot", self.fsroot.as_deref())?;
        let lossy: Option<Vec<_>> =
            self.options.as_ref().map(|all| all.iter().map(|option| String::from_utf8_lossy(option)).collect());
        map.serialize_entry("options", &lossy)?;
        if let Some(options) = &self.options
            && options.iter().any(|option| std::str::from_utf8(option).is_err())
        {
            let exact: Vec<String> = options.iter().map(|option| STANDARD.encode(option)).collect();
            map.serialize_entry("options_b64", &exact)?;
        }
        map.serialize_entry("kind", &self.kind)?;
        map.serialize_entry("class", self.class)?;
        map.serialize_entry("hidden", &self.hidden)?;
        map.serialize_entry("server", &self.server)?;
        map.serialize_entry("verdict", &self.verdict)?;
        map.serialize_entry("beneath", &self.beneath)?;
        map.end()
    }
}

/// A place where the file system changes and the table says nothing.
#[derive(Clone, Debug)]
pub struct Boundary {
    /// Its absolute name.
    pub path: Vec<u8>,
    /// `subvolume`, `snapshot`, `automount` or `device`.
    pub kind: &'static str,
    /// Its device number.
    pub dev: Dev,
}

impl Serialize for Boundary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "path", Some(&self.path))?;
        map.serialize_entry("kind", self.kind)?;
        map.serialize_entry("dev", &self.dev.to_string())?;
        map.end()
    }
}

/// Whether a path was a mount point, as `--assert` asked.
#[derive(Clone, Debug)]
pub struct Asserted {
    /// The path as it was given.
    pub path: Vec<u8>,
    /// Whether it is one.
    pub mountpoint: bool,
}

impl Serialize for Asserted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "path", Some(&self.path))?;
        map.serialize_entry("mountpoint", &self.mountpoint)?;
        map.end()
    }
}

/// How much was searched.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Search {
    /// Directories read.
    pub directories: u64,
    /// Entries seen.
    pub entries: u64,
    /// Directories that need not be read.
    pub pruned: u64,
}

/// The result of `fathom mounts`.
#[derive(Clone, Debug)]
pub struct Mounts<'a> {
    /// The directory asked about; `None` for `--assert`.
    pub root: Option<&'a [u8]>,
    /// The method.
    pub by: &'static str,
    /// Why this one.
    pub why: &'a str,
    /// Whether nothing is lacking.
    pub complete: bool,
    /// The mount points.
    pub mounts: &'a [Row],
    /// Boundaries that are no mount points, when asked for.
    pub boundaries: Option<&'a [Boundary]>,
    /// How much was searched, when anything was.
    pub search: Option<Search>,
    /// The comparison of methods, when asked for.
    pub compare: Option<&'a crate::compare::Comparison<'a>>,
    /// What `--assert` found.
    pub asserted: Option<&'a [Asserted]>,
}

impl Serialize for Mounts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "root", self.root)?;
        map.serialize_entry("by", self.by)?;
        map.serialize_entry("why", self.why)?;
        map.serialize_entry("complete", &self.complete)?;
        map.serialize_entry("mounts", self.mounts)?;
        map.serialize_entry("boundaries", &self.boundaries)?;
        map.serialize_entry("search", &self.search)?;
        map.serialize_entry("compare", &self.compare)?;
        map.serialize_entry("asserted", &self.asserted)?;
        map.end()
    }
}

/// How rows are shown as a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// Columns that there is room for; `None` for as many as it takes.
    pub width: Option<usize>,
    /// Whether to draw the tree that the mount points make.
    pub tree: bool,
    /// Whether to show headings and tones in colour.
    pub color: bool,
}

/// The table of mount points, in the order of their names; columns that say nothing are left out.
pub fn table(rows: &[Row], look: Look) -> String {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    // A hidden mount comes under the one that lies over it: that is the one people see at this name.
    order.sort_by_cached_key(|&at| (sort_key(&rows[at].target), rows[at].hidden, at));
    let limbs = if look.tree { limbs(rows, &order) } else { vec![String::new(); rows.len()] };
    let any = |has: fn(&Row) -> bool| rows.iter().any(has);
    let mut columns: Vec<(&'static str, Align)> = vec![("TARGET", Align::Left)];
    let with_verdict = any(|row| row.verdict.is_some());
    let with_beneath = any(|row| row.beneath.is_some());
    let with_server = any(|row| row.server.is_some());
    let with_state = any(|row| row.hidden || row.kind == Some("file"));
    let known = any(|row| row.fstype.is_some());
    let with_source = any(|row| row.source.is_some());
    if with_verdict {
        columns.push(("ANSWERS", Align::Left));
    }
    if with_beneath {
        columns.extend([("FILES", Align::Right), ("BENEATH", Align::Right)]);
    }
    if with_server {
        columns.push(("SERVER", Align::Left));
    }
    if with_source {
        columns.push(("SOURCE", Align::Left));
    }
    columns.push(if known { ("FSTYPE", Align::Left) } else { ("DEV", Align::Left) });
    if with_state {
        columns.push(("STATE", Align::Left));
    }
    if known {
        columns.push(("OPTIONS", Align::Left));
    }
    let mut table = Table::new(&columns);
    for at in order {
        let row = &rows[at];
        let name = |name: &Option<Vec<u8>>| name.as_deref().map_or("-".to_owned(), printable);
        let mut cells = vec![format!("{}{}", limbs[at], printable(&row.target))];
        if with_verdict {
            cells.push(row.verdict.unwrap_or("-").to_owned());
        }
        if with_beneath {
            cells.push(row.beneath.map_or("-".to_owned(), |b| b.files.to_string()));
            cells.push(row.beneath.map_or("-".to_owned(), |b| size(b.bytes)));
        }
        if with_server {
            cells.push(row.server.as_deref().map_or("-".to_owned(), |s| printable(s.as_bytes())));
        }
        if with_source {
            cells.push(source(row));
        }
        cells.push(if known { name(&row.fstype) } else { row.dev.to_string() });
        if with_state {
            let words = [row.hidden.then_some("hidden"), (row.kind == Some("file")).then_some("file")];
            cells.push(words.into_iter().flatten().collect::<Vec<_>>().join(","));
        }
        if known {
            cells.push(row.options.as_ref().map_or("-".to_owned(), |all| printable(&all.join(&b','))));
        }
        let bad = row.verdict.is_some_and(|v| v != "ok" && v != "hidden");
        let tone = if bad {
            Tone::Bad
        } else if row.hidden {
            Tone::Dim
        } else {
            Tone::Plain
        };
        table.row(cells, tone);
    }
    table.to_text(look.width, look.color)
}

/// As `compare` of names: what lies in a directory comes right after it.
fn sort_key(target: &[u8]) -> Vec<u8> {
    target.iter().map(|&b| if b == b'/' { 0 } else { b }).collect()
}

/// The source as findmnt writes it: with the part that is mounted in brackets, unless that is all.
fn source(row: &Row) -> String {
    let source = row.source.as_deref().map_or("-".to_owned(), printable);
    match row.fsroot.as_deref() {
        None | Some(b"/" | b"") => source,
        Some(part) => format!("{source}[{}]", printable(part)),
    }
}

/// The lines before each name that make a tree of the list.
fn limbs(rows: &[Row], order: &[usize]) -> Vec<String> {
    /// Deeper than this, the lines would leave no room for the names.
    const DEEPEST: usize = 12;
    let mut above: Vec<usize> = Vec::new();
    let mut depths = vec![0usize; rows.len()];
    for &at in order {
        while above.last().is_some_and(|&top| !contains(&rows[top].target, &rows[at].target)) {
            above.pop();
        }
        depths[at] = above.len();
        above.push(at);
    }
    // From the last to the first: whether at each depth a sibling is still to come.
    let mut more: Vec<bool> = Vec::new();
    let mut limbs = vec![String::new(); rows.len()];
    for &at in order.iter().rev() {
        let depth = depths[at];
        more.resize(depth.max(more.len()), false);
        if depth > 0 {
            let upper = more[..depth - 1].iter().take(DEEPEST).map(|&more| if more { "│ " } else { "  " });
            limbs[at] = upper.collect();
            limbs[at].push_str(if more[depth - 1] { "├─" } else { "└─" });
            more[depth - 1] = true;
        }
        more.truncate(depth);
    }
    // The first level under a single root needs no line of its own to its left.
    limbs
}

/// Whether a name is, or is below, a directory.
fn contains(dir: &[u8], name: &[u8]) -> bool {
    dir == b"/" || name.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// A number of bytes, as people write it.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["", "K", "M", "G", "T", "P"] {
        if value < 1024.0 || unit == "P" {
            return if unit.is_empty() { bytes.to_string() } else { format!("{value:.1}{unit}") };
        }
        value /= 1024.0;
    }
    unreachable!("the last unit takes all")
}

/// The names of visible mount points, each with `end` behind it.
pub fn paths(rows: &[Row], end: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for row in rows.iter().filter(|row| !row.hidden) {
        out.extend_from_slice(&row.target);
        out.push(end);
    }
    out
}

/// A mount table as /etc/mtab holds it; a parent comes before what is on it.
pub fn mnttab(rows: &[Row]) -> Vec<u8> {
    let mut out = Vec::new();
    for row in rows {
        tab_line(&mut out, row.source.as_deref(), &row.target, row.fstype.as_deref(), options(row), b"0 0");
    }
    out
}

fn options(row: &Row) -> Vec<u8> {
    row.options.as_ref().map_or(b"rw".to_vec(), |all| all.join(&b','))
}

fn tab_line(
    out: &mut Vec<u8>,
    source: Option<&[u8]>,
    target: &[u8],
    fstype: Option<&[u8]>,
    options: Vec<u8>,
    numbers: &[u8],
) {
    let or = |field: Option<&[u8]>, default: &[u8]| escape(field.filter(|f| !f.is_empty()).unwrap_or(default));
    let fields =
        [or(source, b"none"), escape(target), or(fstype, b"auto"), or(Some(&options), b"rw"), numbers.to_vec()];
    out.extend(fields.join(&b' '));
    out.push(b'\n');
}

/// File systems that the system mounts by itself.
const BY_THE_SYSTEM: [&[u8]; 22] = [
    b"autofs",
    b"binfmt_misc",
    b"bpf",
    b"cgroup",
    b"cgroup2",
    b"configfs",
    b"cpuset",
    b"debugfs",
    b"devpts",
    b"devtmpfs",
    b"efivarfs",
    b"fusectl",
    b"hugetlbfs",
    b"mqueue",
    b"nsfs",
    b"proc",
    b"pstore",
    b"rpc_pipefs",
    b"securityfs",
    b"sysfs",
    b"tracefs",
    b"rootfs",
];

/// Lines for /etc/fstab: what the system does not mount by itself; bind mounts as such, with the name that shows the same
/// directory elsewhere.
pub fn fstab(rows: &[Row]) -> Vec<u8> {
    let mut out = Vec::new();
    let visible = || rows.iter().filter(|row| !row.hidden);
    for row in visible() {
        let fstype = row.fstype.as_deref().unwrap_or(b"auto");
        if BY_THE_SYSTEM.contains(&fstype) {
            continue;
        }
        let part = row.fsroot.as_deref().unwrap_or(b"/");
        let earlier = visible().take_while(|other| !std::ptr::eq(*other, row));
        let original = earlier
            .filter(|other| other.dev == row.dev)
            .filter_map(|other| {
                let shown = other.fsroot.as_deref().unwrap_or(b"/");
                contains(shown, part).then(|| {
                    let rest = if shown == b"/" { part } else { &part[shown.len()..] };
                    let at: &[u8] = if other.target == b"/" { b"" } else { &other.target };
                    let rest = if rest == b"/" { &b""[..] } else { rest };
                    [at, rest].concat()
                })
            })
            .last();
        match original {
            Some(original) if fstype != b"btrfs" || part != b"/" && !has_subvolume(row, part) => {
                let original = if original.is_empty() { b"/".to_vec() } else { original };
                let options = row.options.as_ref().and_then(|all| all.first()).filter(|o| o.as_slice() == b"ro");
                let options = if options.is_some() { b"bind,ro".to_vec() } else { b"bind".to_vec() };
                tab_line(&mut out, Some(&original), &row.target, Some(b"none"), options, b"0 0");
            }
            _ => {
                let pass: &[u8] = match (row.target.as_slice(), row.dev.major) {
                    (b"/", _) => b"0 1",
                    (_, 0) => b"0 0",
                    _ => b"0 2",
                };
                tab_line(&mut out, row.source.as_deref(), &row.target, Some(fstype), options(row), pass);
            }
        }
    }
    out
}

/// Whether a btrfs mount's own options name the part that is mounted: then it is a subvolume and no bind mount.
fn has_subvolume(row: &Row, part: &[u8]) -> bool {
    row.options.iter().flatten().any(|option| option.strip_prefix(b"subvol=") == Some(part))
}

/// The mount points that a backup should keep out of: a line each, as a pattern that tar, restic and borg take for the
/// name and nothing else. A newline in a name, which no such file can hold, is written `?`.
pub fn exclude(rows: &[Row]) -> Vec<u8> {
    let mut out = Vec::new();
    for row in rows.iter().filter(|row| row.verdict.is_some_and(|v| v != "ok" && v != "hidden")) {
        for &byte in &row.target {
            match byte {
                b'*' | b'?' | b'[' => out.extend([b'[', byte, b']']),
                b'\\' => out.extend(b"[\\\\]"),
                b'\n' => out.push(b'?'),
                _ => out.push(byte),
            }
        }
        out.push(b'\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: &str, fstype: &str) -> Row {
        Row {
            id: None,
            parent: None,
            target: target.into(),
            source: Some(b"/dev/x".to_vec()),
            fstype: Some(fstype.into()),
            dev: Dev { major: 8, minor: 1 },
            fsroot: Some(b"/".to_vec()),
            options: Some(vec![b"rw".to_vec()]),
            kind: Some("dir"),
            class: "leaf",
            hidden: false,
            server: None,
            verdict: None,
            beneath: None,
        }
    }

    #[test]
    fn the_tree_is_drawn() {
        let rows = ["/", "/a", "/a/b", "/a/b", "/c"].map(|t| row(t, "ext4"));
        let text = table(&rows, Look { tree: true, ..Look::default() });
        let names: Vec<&str> =
            text.lines().skip(1).map(|line| line.split(" /dev").next().unwrap().trim_end()).collect();
        assert_eq!(names, ["/", "├─/a", "│ └─/a/b", "│   └─/a/b", "└─/c"]);
    }

    #[test]
    fn odd_names_in_tab_files() {
        let mut odd = row("/a b\n\\#", "ext4");
        odd.source = None;
        assert_eq!(mnttab(&[odd]), b"none /a\\040b\\012\\134\\043 ext4 rw 0 0\n");
    }

    #[test]
    fn a_bind_mount_in_fstab_names_its_original() {
        let mut bind = row("/jail/etc", "ext4");
        bind.fsroot = Some(b"/srv/etc".to_vec());
        let text = String::from_utf8(fstab(&[row("/", "ext4"), bind, row("/proc", "proc")])).unwrap();
        assert_eq!(text, "/dev/x / ext4 rw 0 1\n/srv/etc /jail/etc none bind 0 0\n");
    }

    #[test]
    fn patterns_match_nothing_else() {
        let mut bad = row("/m[1]*\\", "nfs");
        bad.verdict = Some("hung");
        assert_eq!(exclude(&[bad, row("/ok", "nfs")]), b"/m[[]1][*][\\\\]\n");
    }

    #[test]
    fn sizes() {
        assert_eq!([size(0), size(1023), size(1536), size(5 << 30)], ["0", "1023", "1.5K", "5.0G"]);
    }

    #[test]
    fn a_name_that_is_no_utf8_is_given_exactly_too() {
        let mut odd = row("/", "ext4");
        odd.target = b"/\xff".to_vec();
        let json: serde_json::Value = serde_json::to_value(&odd).unwrap();
        assert_eq!((json["target"].as_str(), json["target_b64"].as_str()), (Some("/\u{fffd}"), Some("L/8=")));
    }
}
