//! What `fathom mounts` prints: mount points in every format.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mounts::boundaries::Boundary;
use mounts::check::Verdict;
use mounts::method::Progress;
use mounts::{Class, Kind, Point, is_kernel_file_system};
use ondisk::mnttab::escape;
use ondisk::split_options;
use serde::{Serialize, Serializer};

use show::json_object;
use show::name::{entry, printable};
use show::table::{Align, Table, TableStyle, Tone};
use show::units::size;

use super::methods::Comparison;

/// A mount point as JSON; what is unknown, or was not requested, is null.
struct JsonPoint<'a>(&'a Point);

impl Serialize for JsonPoint<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let point = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &point.id)?;
        map.serialize_entry("parent", &point.parent)?;
        entry(&mut map, "target", Some(&point.target))?;
        entry(&mut map, "source", point.source())?;
        entry(&mut map, "fstype", point.fstype())?;
        map.serialize_entry("dev", &point.dev.to_string())?;
        entry(&mut map, "fsroot", point.fsroot())?;
        let options: Option<Vec<Vec<u8>>> = point.options().map(|all| split_options(all).collect());
        let lossy: Option<Vec<_>> = options.as_ref().map(|all| {
            all.iter()
                .map(|option| String::from_utf8_lossy(option))
                .collect()
        });
        map.serialize_entry("options", &lossy)?;
        if let Some(options) = &options
            && options
                .iter()
                .any(|option| std::str::from_utf8(option).is_err())
        {
            let exact: Vec<String> = options
                .iter()
                .map(|option| STANDARD.encode(option))
                .collect();
            map.serialize_entry("options_b64", &exact)?;
        }
        let kind = point.kind.map(|kind| match kind {
            Kind::Dir => "dir",
            Kind::File => "file",
        });
        let class = match point.class {
            Class::Leaf => "leaf",
            Class::Internal => "internal",
        };
        map.serialize_entry("kind", &kind)?;
        map.serialize_entry("class", class)?;
        map.serialize_entry("hidden", &point.hidden)?;
        map.serialize_entry("server", &point.server)?;
        map.serialize_entry("verdict", &point.verdict.map(Verdict::name))?;
        map.serialize_entry("beneath", &point.beneath.map(JsonBeneath))?;
        map.end()
    }
}

struct JsonBeneath(mounts::beneath::Beneath);

json_object!(JsonBeneath, |beneath| {
    "files": beneath.0.files,
    "bytes": beneath.0.bytes,
});

struct JsonBoundary<'a>(&'a Boundary);

json_object!(JsonBoundary<'_>, |boundary| {
    name "path": Some(&boundary.0.path),
    "kind": boundary.0.kind.name(),
    "dev": boundary.0.dev.to_string(),
});

/// Whether a path of `--assert` is a mount point.
#[derive(Clone, Debug)]
pub(crate) struct Asserted {
    /// The path as it was given.
    pub(crate) path: Vec<u8>,
    pub(crate) mountpoint: bool,
}

json_object!(Asserted, |asserted| {
    name "path": Some(&asserted.path),
    "mountpoint": asserted.mountpoint,
});

struct JsonSearch(Progress);

json_object!(JsonSearch, |search| {
    "directories": search.0.directories,
    "entries": search.0.entries,
    "pruned": search.0.pruned,
});

/// The result of `fathom mounts`; what was not requested is `None`.
#[derive(Clone)]
pub(crate) struct Mounts<'a> {
    /// The directory at which the search began; `None` for `--assert`.
    pub(crate) root: Option<&'a [u8]>,
    /// The method.
    pub(crate) by: &'static str,
    /// Why this method.
    pub(crate) why: &'a str,
    /// Whether no mount point is missing.
    pub(crate) complete: bool,
    pub(crate) mounts: &'a [Point],
    pub(crate) boundaries: Option<&'a [Boundary]>,
    /// How much was searched, when anything was.
    pub(crate) search: Option<Progress>,
    pub(crate) compare: Option<&'a Comparison<'a>>,
    pub(crate) asserted: Option<&'a [Asserted]>,
}

impl<'a> Mounts<'a> {
    /// A result with nothing but mount points.
    pub(crate) fn new(
        by: &'static str,
        why: &'a str,
        complete: bool,
        mounts: &'a [Point],
    ) -> Mounts<'a> {
        Mounts {
            root: None,
            by,
            why,
            complete,
            mounts,
            boundaries: None,
            search: None,
            compare: None,
            asserted: None,
        }
    }
}

json_object!(Mounts<'_>, |result| {
    name "root": result.root,
    "by": result.by,
    "why": result.why,
    "complete": result.complete,
    "mounts": List(result.mounts.iter().map(JsonPoint)),
    "boundaries": result.boundaries.map(|all| List(all.iter().map(JsonBoundary))),
    "search": result.search.map(JsonSearch),
    "compare": result.compare,
    "asserted": result.asserted,
});

/// A JSON list of what an iterator gives.
struct List<I>(I);

impl<I: Iterator<Item: Serialize> + Clone> Serialize for List<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

/// The table of mount points: a list in the order in which they were made, or a tree in the order
/// of their names. Columns that say nothing are left out. The text is given to `put` piece by
/// piece.
pub(crate) fn table(points: &[Point], style: TableStyle, put: &mut dyn FnMut(&str)) {
    if points.is_empty() {
        return;
    }
    let order: Vec<usize> = if style.tree {
        by_name(points)
    } else {
        (0..points.len()).collect()
    };
    let limbs = if style.tree {
        limbs(points, &order)
    } else {
        Vec::new()
    };
    let has = Columns::in_use(points);
    type Cell = fn(&Point) -> Cow<'_, str>;
    let columns: [(bool, &str, Align, Cell); 10] = [
        (true, "TARGET", Align::Left, |point| {
            printable(&point.target)
        }),
        (has.verdict, "ANSWERS", Align::Left, |point| {
            point.verdict.map_or("-", Verdict::name).into()
        }),
        (has.beneath, "FILES", Align::Right, |point| {
            point
                .beneath
                .map_or("-".into(), |b| b.files.to_string().into())
        }),
        (has.beneath, "BENEATH", Align::Right, |point| {
            point.beneath.map_or("-".into(), |b| size(b.bytes).into())
        }),
        (has.server, "SERVER", Align::Left, |point| {
            cell(point.server.as_deref().map(str::as_bytes))
        }),
        (has.source, "SOURCE", Align::Left, source),
        (has.fstype, "FSTYPE", Align::Left, |point| {
            cell(point.fstype())
        }),
        (!has.fstype, "DEV", Align::Left, |point| {
            point.dev.to_string().into()
        }),
        (has.state, "STATE", Align::Left, state),
        (has.fstype, "OPTIONS", Align::Left, |point| {
            cell(point.options())
        }),
    ];
    let shown = || columns.iter().filter(|(shown, ..)| *shown);
    let heads: Vec<(&str, Align)> = shown().map(|&(_, name, align, _)| (name, align)).collect();
    let mut table = Table::new(&heads, points.len());
    for (at, point) in order.iter().map(|&at| (at, &points[at])) {
        let limb = limbs.get(at).map_or("", String::as_str);
        let cells = shown()
            .enumerate()
            .map(|(column, (_, _, _, cell))| match column {
                0 if !limb.is_empty() => format!("{limb}{}", cell(point)).into(),
                _ => cell(point),
            });
        table.row(cells, tone(point));
    }
    table.write(style.width, style.color, put);
}

/// What is known of any of them: columns that say nothing are left out.
#[derive(Default)]
pub(crate) struct Columns {
    /// A verdict.
    pub(crate) verdict: bool,
    /// What lies beneath.
    pub(crate) beneath: bool,
    /// A server.
    pub(crate) server: bool,
    /// A source.
    pub(crate) source: bool,
    /// A type.
    pub(crate) fstype: bool,
    /// A state.
    pub(crate) state: bool,
}

impl Columns {
    /// Looks at all points.
    pub(crate) fn in_use(points: &[Point]) -> Columns {
        let mut has = Columns::default();
        for point in points {
            has.verdict |= point.verdict.is_some();
            has.beneath |= point.beneath.is_some();
            has.server |= point.server.is_some();
            has.source |= point.source().is_some();
            has.fstype |= point.fstype().is_some();
            has.state |= point.hidden || point.kind == Some(Kind::File);
        }
        has
    }
}

/// How its point looks.
pub(crate) fn tone(point: &Point) -> Tone {
    match point.verdict {
        Some(Verdict::Slow | Verdict::Hung | Verdict::Stale | Verdict::Denied) => Tone::Bad,
        _ if point.hidden => Tone::Dim,
        _ => Tone::Plain,
    }
}

/// The order of the names: what lies in a directory comes right after it; at one name, the mount
/// that people see there.
pub(crate) fn by_name(points: &[Point]) -> Vec<usize> {
    let mut order: Vec<(&[u8], bool, usize)> = points
        .iter()
        .enumerate()
        .map(|(at, point)| (&point.target[..], point.hidden, at))
        .collect();
    let key = |b: u8| if b == b'/' { 0 } else { b };
    order.sort_by(|a, b| {
        let differ = a.0.iter().zip(b.0).find(|(a, b)| a != b);
        let names = differ.map_or(a.0.len().cmp(&b.0.len()), |(&a, &b)| key(a).cmp(&key(b)));
        names.then(a.1.cmp(&b.1))
    });
    order.into_iter().map(|(_, _, at)| at).collect()
}

/// A name, or a dash for none.
pub(crate) fn cell(name: Option<&[u8]>) -> Cow<'_, str> {
    name.map_or("-".into(), printable)
}

/// What is special about it.
pub(crate) fn state(point: &Point) -> Cow<'_, str> {
    match (point.hidden, point.kind) {
        (true, Some(Kind::File)) => "hidden,file".into(),
        (true, _) => "hidden".into(),
        (false, Some(Kind::File)) => "file".into(),
        (false, _) => "".into(),
    }
}

/// The source as findmnt writes it: with the part that is mounted in brackets, unless that is all.
pub(crate) fn source(point: &Point) -> Cow<'_, str> {
    match point.fsroot() {
        None | Some(b"/" | b"") => cell(point.source()),
        Some(part) => format!("{}[{}]", cell(point.source()), printable(part)).into(),
    }
}

/// The lines before each name that make a tree of the list.
pub(crate) fn limbs(points: &[Point], order: &[usize]) -> Vec<String> {
    /// Deeper than this, the lines would leave no room for the names.
    const DEEPEST: usize = 12;
    let mut above: Vec<usize> = Vec::new();
    let mut depths = vec![0usize; points.len()];
    for &at in order {
        while above
            .last()
            .is_some_and(|&top| !contains(&points[top].target, &points[at].target))
        {
            above.pop();
        }
        depths[at] = above.len();
        above.push(at);
    }
    // From the last to the first: whether at each depth a sibling is still to come.
    let mut more: Vec<bool> = Vec::new();
    let mut limbs = vec![String::new(); points.len()];
    for &at in order.iter().rev() {
        let depth = depths[at];
        more.resize(depth.max(more.len()), false);
        if depth > 0 {
            let upper = more[..depth - 1]
                .iter()
                .take(DEEPEST)
                .map(|&more| if more { "│ " } else { "  " });
            limbs[at] = upper.collect();
            limbs[at].push_str(if more[depth - 1] { "├─" } else { "└─" });
            more[depth - 1] = true;
        }
        more.truncate(depth);
    }
    limbs
}

/// Whether a name is, or is below, a directory.
fn contains(dir: &[u8], name: &[u8]) -> bool {
    dir == b"/"
        || name
            .strip_prefix(dir)
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// The names of visible mount points, each with `end` behind it.
pub(crate) fn paths(points: &[Point], end: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for point in points.iter().filter(|point| !point.hidden) {
        out.extend_from_slice(&point.target);
        out.push(end);
    }
    out
}

/// A mount table as /etc/mtab holds it; a parent comes before what is on it.
pub(crate) fn mnttab(points: &[Point]) -> Vec<u8> {
    let mut out = Vec::new();
    for point in points {
        tab_line(
            &mut out,
            point.source(),
            &point.target,
            point.fstype(),
            options(point),
            b"0 0",
        );
    }
    out
}

fn options(point: &Point) -> &[u8] {
    point
        .options()
        .filter(|options| !options.is_empty())
        .unwrap_or(b"rw")
}

fn tab_line(
    out: &mut Vec<u8>,
    source: Option<&[u8]>,
    target: &[u8],
    fstype: Option<&[u8]>,
    options: &[u8],
    numbers: &[u8],
) {
    let or = |field: Option<&[u8]>, default: &[u8]| {
        escape(field.filter(|f| !f.is_empty()).unwrap_or(default))
    };
    let fields = [
        or(source, b"none"),
        escape(target),
        or(fstype, b"auto"),
        options.to_vec(),
        numbers.to_vec(),
    ];
    out.extend(fields.join(&b' '));
    out.push(b'\n');
}

/// Options that a bind mount has for itself.
const OF_THE_MOUNT: [&[u8]; 8] = [
    b"ro",
    b"nosuid",
    b"nodev",
    b"noexec",
    b"noatime",
    b"nodiratime",
    b"strictatime",
    b"nosymfollow",
];

/// Lines for /etc/fstab: what the system does not mount by itself; bind mounts as such, with the
/// name that shows the same directory elsewhere, on one of `every` mount there is.
pub(crate) fn fstab(points: &[Point], every: &[Point]) -> Vec<u8> {
    let mut out = Vec::new();
    let visible: Vec<&Point> = every.iter().filter(|point| !point.hidden).collect();
    for point in points.iter().filter(|point| !point.hidden) {
        let fstype = point.fstype().unwrap_or(b"auto");
        let is_automatic = matches!(fstype, b"autofs" | b"rootfs" | b"rpc_pipefs");
        if is_automatic || is_kernel_file_system(fstype) {
            continue; // the system mounts it by itself
        }
        let part = point.fsroot().unwrap_or(b"/");
        let original = visible
            .iter()
            .take_while(|other| (other.id, &other.target) != (point.id, &point.target))
            .filter(|other| other.dev == point.dev)
            .find_map(|other| {
                let shown = other.fsroot().unwrap_or(b"/");
                contains(shown, part).then(|| {
                    let rest = if shown == b"/" {
                        part
                    } else {
                        &part[shown.len()..]
                    };
                    let at: &[u8] = if other.target == b"/" {
                        b""
                    } else {
                        &other.target
                    };
                    let rest = if rest == b"/" { &b""[..] } else { rest };
                    [at, rest].concat()
                })
            });
        match original {
            Some(original) if fstype != b"btrfs" || part != b"/" && !has_subvolume(point, part) => {
                let original = if original.is_empty() {
                    b"/".to_vec()
                } else {
                    original
                };
                if original.ends_with(b"//deleted") {
                    out.extend(b"# what is mounted here has been removed: ");
                }
                let own = split_options(options(point))
                    .filter(|option| OF_THE_MOUNT.contains(&option.as_slice()));
                let options = own.fold(b"bind".to_vec(), |all, option| [all, option].join(&b','));
                tab_line(
                    &mut out,
                    Some(&original),
                    &point.target,
                    Some(b"none"),
                    &options,
                    b"0 0",
                );
            }
            _ => {
                let pass: &[u8] = match (&point.target[..], point.dev.major) {
                    (b"/", _) => b"0 1",
                    (_, 0) => b"0 0",
                    _ => b"0 2",
                };
                tab_line(
                    &mut out,
                    point.source(),
                    &point.target,
                    Some(fstype),
                    options(point),
                    pass,
                );
            }
        }
    }
    out
}

/// Whether a btrfs mount's own options name the part that is mounted: then it is a subvolume and no
/// bind mount.
fn has_subvolume(point: &Point, part: &[u8]) -> bool {
    split_options(options(point)).any(|option| option.strip_prefix(b"subvol=") == Some(part))
}

/// The mount points that a backup should keep out of: a line each, as a pattern that tar, restic
/// and borg take for the name and nothing else. A newline in a name, which no such file can hold,
/// is written `?`. A slow mount is not among them: it can be backed up.
pub(crate) fn exclude(points: &[Point]) -> Vec<u8> {
    let mut out = Vec::new();
    for point in points.iter().filter(|point| {
        point
            .verdict
            .is_some_and(|v| matches!(v, Verdict::Hung | Verdict::Stale | Verdict::Denied))
    }) {
        for (at, &byte) in point.target.iter().enumerate() {
            match byte {
                // restic takes `$` for a variable, and cuts blanks off the ends.
                b'*' | b'?' | b'[' | b'$' => out.extend([b'[', byte, b']']),
                b' ' | b'\t' if at + 1 == point.target.len() => out.extend([b'[', byte, b']']),
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
    use ondisk::{Content, Dev};
    use std::sync::Arc;

    fn content(point: &mut Point) -> &mut Content {
        Arc::make_mut(point.content.as_mut().unwrap())
    }

    /// A visible mount point of a whole file system.
    fn point(target: &str, fstype: &str) -> Point {
        let dev = Dev { major: 8, minor: 1 };
        let content = Content {
            source: Some(b"/dev/x".to_vec()),
            fstype: fstype.into(),
            fsroot: b"/".to_vec(),
            options: b"rw".to_vec(),
        };
        Point {
            content: Some(Arc::new(content)),
            ..Point::bare(target.into(), dev, Some(Kind::Dir))
        }
    }

    #[test]
    fn the_tree_is_drawn() {
        let rows = ["/", "/a", "/a/b", "/a/b", "/c"].map(|t| point(t, "ext4"));
        let mut text = String::new();
        table(
            &rows,
            TableStyle {
                tree: true,
                ..TableStyle::default()
            },
            &mut |piece| text.push_str(piece),
        );
        let names: Vec<&str> = text
            .lines()
            .skip(1)
            .map(|line| line.split(" /dev").next().unwrap().trim_end())
            .collect();
        assert_eq!(names, ["/", "├─/a", "│ └─/a/b", "│   └─/a/b", "└─/c"]);
    }

    #[test]
    fn odd_names_in_tab_files() {
        let mut odd = point("/a b\n\\#", "ext4");
        content(&mut odd).source = None;
        assert_eq!(
            mnttab(&[odd]),
            b"none /a\\040b\\012\\134\\043 ext4 rw 0 0\n"
        );
    }

    #[test]
    fn a_bind_mount_in_fstab_names_its_original() {
        let mut bind = point("/jail/etc", "ext4");
        content(&mut bind).fsroot = b"/srv/etc".to_vec();
        let rows = [point("/", "ext4"), bind, point("/proc", "proc")];
        let text = String::from_utf8(fstab(&rows, &rows)).unwrap();
        assert_eq!(
            text,
            "/dev/x / ext4 rw 0 1\n/srv/etc /jail/etc none bind 0 0\n"
        );
    }

    #[test]
    fn patterns_match_nothing_else() {
        let mut bad = point("/m[1]*\\$x ", "nfs");
        bad.verdict = Some(Verdict::Hung);
        let mut slow = point("/slow", "nfs");
        slow.verdict = Some(Verdict::Slow);
        assert_eq!(
            exclude(&[bad, point("/ok", "nfs"), slow]),
            b"/m[[]1][*][\\\\][$]x[ ]\n"
        );
    }

    #[test]
    fn a_name_that_is_no_utf8_is_given_exactly_too() {
        let mut odd = point("/", "ext4");
        odd.target = b"/\xff".to_vec();
        let json: serde_json::Value = serde_json::to_value(JsonPoint(&odd)).unwrap();
        assert_eq!(
            (json["target"].as_str(), json["target_b64"].as_str()),
            (Some("/\u{fffd}"), Some("L/8="))
        );
    }
}
