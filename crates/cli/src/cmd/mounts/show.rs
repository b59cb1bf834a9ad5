//! The output of `fathom mounts` in every format.

use std::borrow::Cow;

use mounts::beneath::HiddenFiles;
use mounts::boundaries::Boundary;
use mounts::check::Verdict;
use mounts::method::SearchProgress;
use mounts::{Point, PointKind};
use ondisk::{Mount, split_options};
use show::json_object;
use show::name::printable;
use show::table::{Align, RowColour, Table, TableStyle};
use show::units::{count, size};

use super::methods::JsonComparison;
use super::tree::{Branch, tree};
use crate::json::Json;

pub(super) const SCHEMA: &str = "fathom.mounts/1";

// In the JSON, unknown details and details that were not requested are null.
json_object!(Json<'_, Point>, |point| {
    "id": point.id,
    "parent": point.parent,
    name "target": Some(&point.target),
    name "source": point.source(),
    name "fstype": point.fstype(),
    "dev": point.dev.to_string(),
    name "fsroot": point.fsroot(),
    names "options": point.options().map(|all| split_options(all).collect::<Vec<_>>()).as_deref(),
    "kind": point.kind.map(PointKind::name),
    "class": point.class.name(),
    "hidden": point.hidden,
    "server": point.server,
    "verdict": point.verdict.map(Verdict::name),
    "beneath": Json(&point.beneath),
});

json_object!(Json<'_, HiddenFiles>, |beneath| {
    "files": beneath.files,
    "bytes": beneath.bytes,
});

json_object!(Json<'_, Boundary>, |boundary| {
    name "path": Some(&boundary.path),
    "kind": boundary.kind.name(),
    "dev": boundary.dev.to_string(),
});

json_object!(Json<'_, SearchProgress>, |search| {
    "directories": search.directories,
    "entries": search.entries,
    "pruned": search.pruned,
});

/// The result of `--assert` for a path: whether it is a mount point.
#[derive(Clone, Debug)]
pub(crate) struct AssertResult {
    pub(crate) path: Vec<u8>,
    pub(crate) mountpoint: bool,
}

json_object!(AssertResult, |asserted| {
    name "path": Some(&asserted.path),
    "mountpoint": asserted.mountpoint,
});

/// The result of `fathom mounts`; parts that were not requested are `None`.
#[derive(Clone, Default)]
pub(crate) struct Mounts<'a> {
    /// The directory at which the search began; `None` for `--assert`.
    pub(crate) root: Option<&'a [u8]>,
    pub(crate) by: &'static str,
    pub(crate) why: &'a str,
    pub(crate) complete: bool,
    pub(crate) mounts: &'a [Point],
    pub(crate) boundaries: Option<&'a [Boundary]>,
    /// How much of the tree was searched; `None` if a mount table made a search unnecessary.
    pub(crate) search: Option<SearchProgress>,
    pub(crate) compare: Option<&'a JsonComparison<'a>>,
    pub(crate) asserted: Option<&'a [AssertResult]>,
    /// The mount that contains the directory; `None` if the method does not know it.
    pub(crate) root_mount: Option<RootMount<'a>>,
}

/// The mount that contains the directory at which the search began.
#[derive(Clone)]
pub(crate) struct RootMount<'a>(pub(crate) &'a Mount);

json_object!(RootMount<'_>, |mount| {
    name "target": mount.0.target.as_deref(),
    name "source": mount.0.content.source.as_deref(),
    name "fstype": Some(&mount.0.content.fstype),
});

json_object!(Mounts<'_>, |result| {
    name "root": result.root,
    "by": result.by,
    "why": result.why,
    "complete": result.complete,
    "mounts": Json(result.mounts),
    "boundaries": result.boundaries.map(Json),
    "search": Json(&result.search),
    "compare": result.compare,
    "asserted": result.asserted,
    "root_mount": result.root_mount,
});

/// The table of mount points: a list in mount order, or a tree ordered by name. The text is passed
/// to `put` in pieces.
pub(crate) fn table(points: &[Point], style: TableStyle, put: &mut dyn FnMut(&str)) {
    if points.is_empty() {
        return;
    }
    let branches = match style.tree {
        true => tree(points),
        false => {
            let branch = |at| Branch {
                at,
                limb: String::new(),
            };
            (0..points.len()).map(branch).collect()
        }
    };
    let any = |has: fn(&Point) -> bool| points.iter().any(has);
    let has_fstype = any(|point| point.fstype().is_some());
    let has_beneath = any(|point| point.beneath.is_some());
    type Cell = fn(&Point) -> Cow<'_, str>;
    let columns: [(bool, &str, Align, Cell); 10] = [
        (true, "TARGET", Align::Left, |point| {
            printable(&point.target)
        }),
        (
            any(|point| point.verdict.is_some()),
            "STATUS",
            Align::Left,
            |point| point.verdict.map_or("-", Verdict::name).into(),
        ),
        (has_beneath, "HIDDEN FILES", Align::Right, |point| {
            let files = point.beneath.map(|beneath| count(beneath.files));
            files.map_or("-".into(), Cow::from)
        }),
        (has_beneath, "HIDDEN SIZE", Align::Right, |point| {
            point.beneath.map_or("-".into(), |b| size(b.bytes).into())
        }),
        (
            any(|point| point.server.is_some()),
            "SERVER",
            Align::Left,
            |point| cell(point.server.as_deref().map(str::as_bytes)),
        ),
        (
            any(|point| point.source().is_some()),
            "SOURCE",
            Align::Left,
            source,
        ),
        (has_fstype, "FSTYPE", Align::Left, |point| {
            cell(point.fstype())
        }),
        (!has_fstype, "DEV", Align::Left, |point| {
            point.dev.to_string().into()
        }),
        (
            any(|point| !state(point).is_empty()),
            "STATE",
            Align::Left,
            state,
        ),
        (has_fstype, "OPTIONS", Align::Left, |point| {
            cell(point.options())
        }),
    ];
    let shown = || columns.iter().filter(|(shown, ..)| *shown);
    let heads: Vec<(&str, Align)> = shown().map(|&(_, name, align, _)| (name, align)).collect();
    let mut table = Table::new(&heads, points.len());
    // On a narrow terminal, keep the requested columns, which precede SOURCE.
    let requested = heads.iter().take_while(|(name, _)| *name != "SOURCE");
    table.keep(requested.count());
    for Branch { at, limb } in branches {
        let point = &points[at];
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

pub(crate) fn tone(point: &Point) -> RowColour {
    match point.verdict {
        Some(
            Verdict::Slow | Verdict::Hung | Verdict::Stale | Verdict::Failing | Verdict::Denied,
        ) => RowColour::Bad,
        _ if point.hidden => RowColour::Dim,
        _ => RowColour::Plain,
    }
}

/// The text of a table cell that contains a name; a dash without a name.
pub(crate) fn cell(name: Option<&[u8]>) -> Cow<'_, str> {
    name.map_or("-".into(), printable)
}

/// Properties of a mount, separated by commas: hidden, on a file, read-only.
pub(crate) fn state(point: &Point) -> Cow<'_, str> {
    // With `--check`, the column STATUS says that a mount is hidden, so this column does not.
    let is_shown = point.verdict == Some(Verdict::Hidden);
    let content = point.content.as_ref();
    // OPTIONS is omitted on a narrow terminal, and `ro` changes what users can do.
    let is_read_only = content.is_some_and(|it| it.mount_read_only || it.super_read_only);
    let words = [
        (point.hidden && !is_shown, "hidden"),
        (point.kind == Some(PointKind::File), "file"),
        (is_read_only, "ro"),
    ];
    let set = words.into_iter().filter(|(is_set, _)| *is_set);
    let set: Vec<&str> = set.map(|(_, word)| word).collect();
    set.join(",").into()
}

/// The source as findmnt(8) prints it: followed by the mounted part in brackets, unless that is the
/// whole file system.
pub(crate) fn source(point: &Point) -> Cow<'_, str> {
    match point.fsroot() {
        None | Some(b"/" | b"") => cell(point.source()),
        Some(part) => format!("{}[{}]", cell(point.source()), printable(part)).into(),
    }
}

/// The paths of visible mount points, each followed by the byte `end`.
pub(crate) fn paths(points: &[Point], end: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for point in points.iter().filter(|point| !point.hidden) {
        out.extend_from_slice(&point.target);
        out.push(end);
    }
    out
}

/// The mount points that a backup should exclude, one per line, as patterns that match only this
/// path in tar, restic and borg. `?` replaces characters that end a line in any of these tools.
/// Slow mounts are not excluded.
pub(crate) fn exclude(points: &[Point]) -> Vec<u8> {
    let mut out = Vec::new();
    for point in points {
        if !matches!(
            point.verdict,
            Some(Verdict::Hung | Verdict::Stale | Verdict::Denied)
        ) {
            continue;
        }
        let end = point.target.len() - blank_at_end(&point.target);
        let (plain, last) = point.target.split_at(end);
        for chunk in plain.utf8_chunks() {
            for &byte in chunk.valid().as_bytes() {
                match byte {
                    // restic expands `$NAME` in patterns.
                    b'*' | b'?' | b'[' | b'$' => out.extend([b'[', byte, b']']),
                    b'\\' => out.extend(b"[\\\\]"),
                    b'\n' | b'\r' => out.push(b'?'),
                    _ => out.push(byte),
                }
            }
            // borg reads patterns as UTF-8 only.
            out.extend(chunk.invalid().iter().map(|_| b'?'));
        }
        match last {
            b"" => {}
            b"\n" | b"\r" => out.push(b'?'),
            // tar, restic and borg trim trailing blanks.
            blank => out.extend([b"[", blank, b"]"].concat()),
        }
        out.push(b'\n');
    }
    out
}

/// The length in bytes of a trailing character that restic or borg treats as white space; 0 if
/// there is none.
fn blank_at_end(name: &[u8]) -> usize {
    let last = name.utf8_chunks().last();
    let last = last.filter(|chunk| chunk.invalid().is_empty());
    let last = last.and_then(|chunk| chunk.valid().chars().next_back());
    let is_blank = |c: &char| c.is_whitespace() || matches!(c, '\x1c'..='\x1f');
    last.filter(is_blank).map_or(0, char::len_utf8)
}

/// The end of a note about a directory without mounts: the mount that contains the directory.
pub(crate) fn containing(mount: &Mount) -> String {
    let Some(target) = &mount.target else {
        return String::new();
    };
    let (target, fstype) = (printable(target), printable(&mount.content.fstype));
    let source = mount.content.source.as_deref();
    let source = source.map_or(String::new(), |source| format!(", {}", printable(source)));
    format!("; it is on the mount point '{target}' ({fstype}{source})")
}

/// The servers of the network mounts, with their number of mount points.
pub(crate) fn servers(points: &[Point]) -> String {
    let mut servers: Vec<(&str, usize)> = Vec::new();
    for server in points.iter().filter_map(|point| point.server.as_deref()) {
        match servers.iter_mut().find(|(name, _)| *name == server) {
            Some((_, n)) => *n += 1,
            None => servers.push((server, 1)),
        }
    }
    if servers.is_empty() {
        return "no network mounts".to_owned();
    }
    let servers = servers
        .iter()
        .map(|(name, n)| format!("{} ({n})", printable(name.as_bytes())));
    format!("servers: {}", servers.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::{Content, Dev};
    use std::sync::Arc;

    /// A visible mount of a whole file system.
    fn point(target: &str, fstype: &str) -> Point {
        let dev = Dev::new(8, 1);
        let content = Content {
            source: Some(b"/dev/x".to_vec()),
            fstype: fstype.into(),
            fsroot: b"/".to_vec(),
            options: b"rw".to_vec(),
            ..Content::default()
        };
        Point {
            content: Some(Arc::new(content)),
            ..Point::bare(target.into(), dev, Some(PointKind::Dir))
        }
    }

    #[test]
    fn table_with_a_tree() {
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
    fn state_says_what_a_mount_is() {
        let mut mount = point("/a", "ext4");
        assert_eq!(state(&mount), "");
        mount.kind = Some(PointKind::File);
        assert_eq!(state(&mount), "file");
        let content = mount.content.as_deref().cloned().unwrap_or_default();
        mount.content = Some(Arc::new(Content {
            super_read_only: true,
            ..content
        }));
        mount.hidden = true;
        assert_eq!(state(&mount), "hidden,file,ro");
        mount.verdict = Some(Verdict::Hidden);
        mount.kind = None;
        assert_eq!(state(&mount), "ro");
    }

    #[test]
    fn exclude_patterns_match_only_the_name() {
        let mut bad = point("/m[1]*\\$x ", "nfs");
        bad.verdict = Some(Verdict::Hung);
        let mut slow = point("/slow", "nfs");
        slow.verdict = Some(Verdict::Slow);
        let mut ends = ["/cr\r", "/nb\u{a0}", "/a\rb\n", "/us\x1f"].map(|name| point(name, "nfs"));
        ends.iter_mut()
            .for_each(|end| end.verdict = Some(Verdict::Stale));
        assert_eq!(
            exclude(&[&[bad, point("/ok", "nfs"), slow], &ends[..]].concat()),
            "/m[[]1][*][\\\\][$]x[ ]\n/cr?\n/nb[\u{a0}]\n/a?b?\n/us[\x1f]\n".as_bytes()
        );
    }

    #[test]
    fn names_that_are_not_utf8_have_a_base64_field() {
        let mut odd = point("/", "ext4");
        odd.target = b"/\xff".to_vec();
        let json: serde_json::Value = serde_json::to_value(Json(&odd)).unwrap();
        assert_eq!(
            (json["target"].as_str(), json["target_b64"].as_str()),
            (Some("/\u{fffd}"), Some("L/8="))
        );
    }
}
