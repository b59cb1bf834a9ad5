//! Lines of mount tables: `--format mnttab` and `--format fstab`.
//!
//! `mount -a` processes the lines of /etc/fstab in order. So [`fstab`] tracks which mounts exist
//! before each line: the line of a mount follows once its mount point is reachable, and the line of
//! a bind mount once its original is reachable.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt;

use base::path;
use mounts::{Point, PointKind, is_kernel_file_system, is_system_path, may_hang};
use ondisk::mnttab::escape;
use ondisk::{Dev, split_options};

use super::tree::by_id;

/// A mount table in the format of /etc/mtab; a parent mount precedes its children.
pub(crate) fn mnttab(points: &[Point]) -> Vec<u8> {
    let mut out = Vec::new();
    let points: Vec<&Point> = points.iter().collect();
    for at in parents_first(&points) {
        let point = points[at];
        let fields = (point.source(), point.fstype(), options(point));
        tab_line(&mut out, &point.target, fields, b"0 0");
    }
    out
}

/// The indices of mounts in table order, but with parents before children: after `mount --move`,
/// the table can list a parent after its child.
fn parents_first(points: &[&Point]) -> Vec<usize> {
    let by_id = by_id(points.iter().copied());
    let mut order = Vec::with_capacity(points.len());
    let mut is_listed = vec![false; points.len()];
    for at in 0..points.len() {
        let (begin, mut next) = (order.len(), Some(at));
        while let Some(at) = next.filter(|&at| !std::mem::replace(&mut is_listed[at], true)) {
            order.push(at);
            next = points[at].parent.and_then(|id| by_id.get(&id).copied());
        }
        order[begin..].reverse();
    }
    order
}

fn options(point: &Point) -> &[u8] {
    let options = point.options();
    options
        .filter(|options| !options.is_empty())
        .unwrap_or(b"rw")
}

/// Appends a line of a mount table. `numbers` are the fields fs_freq and fs_passno.
fn tab_line(
    out: &mut Vec<u8>,
    target: &[u8],
    (source, fstype, options): (Option<&[u8]>, Option<&[u8]>, &[u8]),
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

/// Lines of /etc/fstab for `points`, except the mounts that the system makes without fstab. The
/// line of a bind mount names its original, which can be on a mount that is in `every` but not in
/// `points`. A mount that no line can make gets a comment.
pub(crate) fn fstab(points: &[Point], every: &[Point]) -> Vec<u8> {
    let ids: HashSet<Option<u64>> = points.iter().map(|point| point.id).collect();
    let outside = every.iter().filter(|other| !ids.contains(&other.id));
    let (mut plan, mut waiting) = Plan::new(outside.collect(), points);
    while !waiting.is_empty() {
        let mut blocked: Vec<(usize, FstabObstacle)> = Vec::new();
        for &at in &waiting {
            match plan.write(at) {
                Ok(()) => {}
                Err(why) if why >= FstabObstacle::Parent => plan.skip(at, why),
                Err(why) => blocked.push((at, why)),
            }
        }
        if blocked.len() == waiting.len() {
            // No mount got a line, so no mount can get one later: skip the mounts whose obstacle is
            // the last in the order of [`FstabObstacle`].
            let first = blocked.iter().map(|(_, why)| *why).max();
            for (at, why) in blocked.extract_if(.., |(_, why)| Some(*why) == first) {
                plan.skip(at, why);
            }
        }
        waiting = blocked.into_iter().map(|(at, _)| at).collect();
    }
    plan.out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineState {
    /// The mount exists before mount -a reads the first line.
    Given,
    Waiting,
    Written,
    Skipped,
}

/// The reason why a mount has no line. Obstacles up to [`FstabObstacle::Original`] can disappear
/// when further lines are written; the others are permanent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum FstabObstacle {
    /// The parent mount has no line yet.
    ParentWaits,
    Covers,
    Covered,
    InMemory,
    Original,
    Parent,
    MountPoint,
    Removed,
    Idmapped,
    Layers,
    Root,
    Unreported,
}

impl fmt::Display for FstabObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FstabObstacle::ParentWaits | FstabObstacle::Parent => {
                "the mount that it is on is skipped"
            }
            FstabObstacle::Covers => "it would cover a mount point before that is used",
            FstabObstacle::Covered => "another mount covers its mount point",
            FstabObstacle::InMemory => {
                "its original is on a tmpfs, which is empty when it is mounted again"
            }
            FstabObstacle::Original => "no other mount shows its original",
            FstabObstacle::MountPoint => "its mount point cannot be created on an empty tmpfs",
            FstabObstacle::Removed => "its original was removed",
            FstabObstacle::Idmapped => {
                "fstab cannot express the user namespace of an idmapped mount"
            }
            FstabObstacle::Layers => {
                "the mount table does not have the absolute paths of its layers"
            }
            FstabObstacle::Root => "mount -a ignores mounts on /",
            FstabObstacle::Unreported => {
                "this method does not report what is mounted (use --by mountinfo)"
            }
        })
    }
}

/// The state of the mount tree after `mount -a` has processed the lines written so far.
struct Plan<'a> {
    /// First the mounts outside of the listed directory, then the mounts for which lines are
    /// written.
    mounts: Vec<&'a Point>,
    state: Vec<LineState>,
    parent: Vec<Option<usize>>,
    /// The children of each parent mount, in the order of [`path::compare`].
    children: HashMap<Option<usize>, Vec<usize>>,
    /// For each mount, the number of mounts in its subtree, including itself, that have neither a
    /// line nor a comment.
    waiting: Vec<usize>,
    /// Existing mounts, by parent mount and mount point; `None` is an unknown parent.
    mounted: HashMap<(Option<usize>, &'a [u8]), usize>,
    by_device: HashMap<Dev, Vec<usize>>,
    out: Vec<u8>,
}

impl<'a> Plan<'a> {
    /// Returns the plan before the first line, and the mounts that need a line, in order. Mounts
    /// outside of the listed directory exist already.
    fn new(outside: Vec<&'a Point>, points: &'a [Point]) -> (Plan<'a>, Vec<usize>) {
        let given = outside.len();
        let mounts: Vec<&Point> = outside.into_iter().chain(points).collect();
        let by_id = by_id(mounts.iter().copied());
        let mut order = parents_first(&mounts);
        let mut rank = vec![0; mounts.len()];
        (0..).zip(&order).for_each(|(at, &mount)| rank[mount] = at);
        let parent = |(at, point): (usize, &&Point)| {
            let parent = point.parent.and_then(|id| by_id.get(&id).copied());
            // A mount table that was read during a move can have a cycle of parents.
            parent.filter(|&parent| rank[parent] < rank[at])
        };
        let mut plan = Plan {
            state: vec![LineState::Waiting; mounts.len()],
            parent: mounts.iter().enumerate().map(parent).collect(),
            children: HashMap::new(),
            waiting: vec![0; mounts.len()],
            mounted: HashMap::new(),
            by_device: HashMap::new(),
            out: Vec::new(),
            mounts,
        };
        for (at, &parent) in plan.parent.iter().enumerate() {
            plan.children.entry(parent).or_default().push(at);
        }
        let target = |at: usize| &plan.mounts[at].target;
        for children in plan.children.values_mut() {
            children.sort_by(|&a, &b| path::compare(target(a), target(b)));
        }
        for at in 0..plan.mounts.len() {
            if at < given || is_automatic(plan.mounts[at]) {
                plan.add(at, plan.parent[at], LineState::Given);
            } else {
                plan.count(at, |waiting| waiting + 1);
            }
        }
        order.retain(|&at| plan.state[at] == LineState::Waiting);
        (plan, order)
    }

    fn add(&mut self, at: usize, on: Option<usize>, state: LineState) {
        let point = self.mounts[at];
        self.state[at] = state;
        self.mounted.insert((on, &point.target), at);
        self.by_device.entry(point.dev).or_default().push(at);
    }

    /// Changes the count [`Plan::waiting`] of a mount and all its ancestors.
    fn count(&mut self, at: usize, change: impl Fn(usize) -> usize) {
        let mut next = Some(at);
        while let Some(at) = next {
            self.waiting[at] = change(self.waiting[at]);
            next = self.parent[at];
        }
    }

    /// Writes a comment instead of the line of a mount that is skipped.
    fn skip(&mut self, at: usize, why: FstabObstacle) {
        let point = self.mounts[at];
        let target = escape(&point.target);
        self.out
            .extend([b"# ", &target[..], b" is skipped: "].concat());
        self.out.extend(format!("{why}\n").bytes());
        self.count(at, |waiting| waiting - 1);
        match is_root(point) {
            // The root is mounted before mount -a runs.
            true => self.add(at, self.parent[at], LineState::Given),
            false => self.state[at] = LineState::Skipped,
        }
    }

    /// The mount that a path leads to, after the lines written so far.
    fn reached(&self, path: &[u8]) -> Option<usize> {
        let slashes = path.iter().enumerate().skip(1);
        let ends = slashes.filter(|(_, byte)| **byte == b'/');
        let ends = [1].into_iter().chain(ends.map(|(at, _)| at));
        let mut mount = None;
        for end in ends.chain([path.len()]) {
            while let Some(&on) = self.mounted.get(&(mount, &path[..end])) {
                mount = Some(on);
            }
        }
        mount
    }

    /// The parent that a mount would get if its line came next, or the obstacle to such a line.
    fn place(&self, at: usize) -> Result<Option<usize>, FstabObstacle> {
        let target = &self.mounts[at].target;
        let mut place = self.parent[at];
        while let Some(parent) = place {
            match self.state[parent] {
                LineState::Given | LineState::Written => break,
                LineState::Waiting => return Err(FstabObstacle::ParentWaits),
                // A skipped parent with the same mount point would have been covered by this mount,
                // so the next ancestor can be the parent instead.
                LineState::Skipped if self.mounts[parent].target == *target => {
                    place = self.parent[parent];
                }
                LineState::Skipped => return Err(FstabObstacle::Parent),
            }
        }
        if self.reached(target) != place {
            return Err(FstabObstacle::Covered);
        }
        // A mount on /a would cover the mount point of a sibling on /a/b, so the mount on /a waits
        // for the sibling and for all mounts below the sibling.
        let beside = self.children.get(&place).map_or(&[][..], Vec::as_slice);
        let compared = |&other: &usize| path::compare(&self.mounts[other].target, target);
        let after = beside.partition_point(|other| compared(other) != Ordering::Greater);
        let below = beside[after..]
            .iter()
            .take_while(|&&other| path::below(target, &self.mounts[other].target).is_some());
        match below.map(|&other| self.waiting[other]).sum() {
            0 => Ok(place),
            _ => Err(FstabObstacle::Covers),
        }
    }

    /// Finds the original of a bind mount: a reachable path to the same files, and the mount of
    /// this path.
    fn original(&self, point: &Point, part: &[u8]) -> Result<(usize, Vec<u8>), FstabObstacle> {
        let same = self
            .by_device
            .get(&point.dev)
            .map_or(&[][..], Vec::as_slice);
        let mut obstacle = FstabObstacle::Original;
        for &at in same {
            let other = self.mounts[at];
            // NFS mounts of different exports can have the same device number.
            let is_same = has_own_device(point) || other.source() == point.source();
            let Some(rest) = path::below(part_of(other), part).filter(|_| is_same) else {
                continue;
            };
            let path = match rest {
                b"" => other.target.clone(),
                rest => path::join(&other.target, rest),
            };
            if self.reached(&path) != Some(at) {
                continue;
            }
            if rest.is_empty() || !self.is_empty(at) {
                return Ok((at, path));
            }
            obstacle = FstabObstacle::InMemory;
        }
        Err(obstacle)
    }

    /// Whether a mount is empty after its line is executed: a new tmpfs or ramfs.
    fn is_empty(&self, at: usize) -> bool {
        let is_in_memory = matches!(self.mounts[at].fstype(), Some(b"tmpfs" | b"ramfs"));
        is_in_memory && self.state[at] == LineState::Written
    }

    /// Writes the line of a mount, and marks the mount as existing.
    fn write(&mut self, at: usize) -> Result<(), FstabObstacle> {
        let point = self.mounts[at];
        let part = part_of(point);
        let fstype = point.fstype().ok_or(FstabObstacle::Unreported)?;
        if point.target == b"/" && !is_root(point) {
            return Err(FstabObstacle::Root);
        }
        if part.ends_with(b"//deleted") {
            return Err(FstabObstacle::Removed);
        }
        if split_options(options(point)).any(|option| option == b"idmapped") {
            return Err(FstabObstacle::Idmapped);
        }
        if fstype == b"overlay" && !has_layers(point) {
            return Err(FstabObstacle::Layers);
        }
        let place = self.place(at)?;
        let is_missing =
            |&place: &usize| self.is_empty(place) && self.mounts[place].target != point.target;
        let mkdir: &[u8] = match place.filter(is_missing) {
            Some(on) if point.kind == Some(PointKind::File) || is_read_only(self.mounts[on]) => {
                return Err(FstabObstacle::MountPoint);
            }
            Some(_) => b",X-mount.mkdir",
            None => b"",
        };
        let is_subvolume = fstype == b"btrfs" && (part == b"/" || has_subvolume(point, part));
        let original = match self.original(point, part) {
            _ if is_subvolume => None,
            Ok(original) => Some(original),
            Err(_) if part == b"/" && self.is_mountable(point) => None,
            Err(why) => return Err(why),
        };
        let mut out = std::mem::take(&mut self.out);
        if point.hidden {
            let target = escape(&point.target);
            out.extend([b"# ", &target[..], b" is covered by a later line\n"].concat());
        }
        match original {
            Some((original, path)) => {
                let mut own = own_options(point);
                if own.is_empty() && !own_options(self.mounts[original]).is_empty() {
                    // A bind mount without per-mount options inherits those of the original, so
                    // give `relatime`, which is the default of the kernel.
                    own.extend(b",relatime");
                }
                let options = [b"bind", &own[..], mkdir].concat();
                let fields = (Some(&path[..]), Some(&b"none"[..]), &options[..]);
                tab_line(&mut out, &point.target, fields, b"0 0");
            }
            None => {
                let pass: &[u8] = match (&point.target[..], point.dev.major) {
                    (b"/", _) => b"0 1",
                    (_, 0) => b"0 0",
                    _ => b"0 2",
                };
                let shown = options(point);
                // `ro` in this line would make all mounts of the device read-only: mount the device
                // writable, then remount only this mount read-only.
                let writable = shown
                    .strip_prefix(b"ro")
                    .filter(|_| self.has_writable(point));
                let line = match writable {
                    Some(rest) => [b"rw", rest, mkdir].concat(),
                    None => [shown, mkdir].concat(),
                };
                tab_line(
                    &mut out,
                    &point.target,
                    (point.source(), Some(fstype), &line),
                    pass,
                );
                if writable.is_some() {
                    let line = [b"remount,bind", &own_options(point)[..]].concat();
                    tab_line(
                        &mut out,
                        &point.target,
                        (None, Some(b"none"), &line),
                        b"0 0",
                    );
                }
            }
        }
        self.out = out;
        self.count(at, |waiting| waiting - 1);
        self.add(at, place, LineState::Written);
        Ok(())
    }

    /// Whether a line that names the source mounts the same file system. A second mount of a tmpfs
    /// would be a new, empty tmpfs.
    fn is_mountable(&self, point: &Point) -> bool {
        let is_remote = || {
            let fstype = point.fstype().unwrap_or_default();
            may_hang(fstype) && !fstype.starts_with(b"fuse")
        };
        has_own_device(point) || is_remote() || !self.by_device.contains_key(&point.dev)
    }

    /// Whether this mount is read-only, although the file system is not, and a different mount of
    /// the file system is writable.
    fn has_writable(&self, point: &Point) -> bool {
        let is_own = point.content.as_ref().is_some_and(|c| !c.super_read_only);
        let others = || self.mounts.iter().filter(|other| other.dev == point.dev);
        is_own && is_read_only(point) && others().any(|other| !is_read_only(other))
    }
}

/// Whether the system mounts this file system without a line in fstab.
fn is_automatic(point: &Point) -> bool {
    point.fstype().is_some_and(|fstype| {
        matches!(fstype, b"autofs" | b"rootfs" | b"rpc_pipefs")
            || is_kernel_file_system(fstype) && is_system_path(&point.target)
    })
}

/// Whether this is the visible mount on `/`. The method `mountinfo` also lists hidden mounts on
/// `/`.
fn is_root(point: &Point) -> bool {
    point.target == b"/" && !point.hidden
}

/// Whether a second mount of the same source shows the same files.
fn has_own_device(point: &Point) -> bool {
    point.dev.major != 0 || matches!(point.fstype(), Some(b"btrfs" | b"zfs" | b"bcachefs"))
}

fn is_read_only(point: &Point) -> bool {
    let content = point.content.as_ref();
    content.is_some_and(|content| content.mount_read_only || content.super_read_only)
}

/// The directory of the file system that the mount shows; `/` is the whole file system.
fn part_of(point: &Point) -> &[u8] {
    let part = point.fsroot().filter(|part| !part.is_empty());
    part.unwrap_or(b"/")
}

/// The per-mount options, which a bind mount does not share with its original, each after a comma.
fn own_options(point: &Point) -> Vec<u8> {
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
    let own = split_options(options(point));
    let own = own.filter(|option| OF_THE_MOUNT.contains(&option.as_slice()));
    own.fold(Vec::new(), |all, option| [&all[..], &option].join(&b','))
}

/// Whether the options of an overlay name its layers by absolute paths. Container engines give paths relative to a directory that the table
/// does not name, and the kernel drops paths that it cannot print.
fn has_layers(point: &Point) -> bool {
    let (mut lower, mut is_absolute) = (0, true);
    for option in split_options(options(point)) {
        let Some(equals) = option.iter().position(|&byte| byte == b'=') else {
            continue;
        };
        let (name, value) = (&option[..equals], &option[equals + 1..]);
        match name {
            b"lowerdir" => {
                // A colon in a path is escaped, and an empty element precedes a layer that has only data.
                let elements = value.split(|&byte| byte == b':');
                let mut is_continued = false;
                for element in elements.filter(|element| !element.is_empty()) {
                    is_absolute &= is_continued || element.starts_with(b"/");
                    is_continued = element.ends_with(b"\\");
                    lower += 1;
                }
            }
            b"lowerdir+" | b"datadir+" | b"upperdir" | b"workdir" => {
                is_absolute &= value.starts_with(b"/");
                lower += usize::from(name == b"lowerdir+");
            }
            _ => {}
        }
    }
    is_absolute && lower > 0
}

/// Whether the option `subvol=` of a btrfs mount names the directory that the mount shows. If so,
/// the mount is one of a subvolume, not a bind mount.
fn has_subvolume(point: &Point, part: &[u8]) -> bool {
    split_options(options(point)).any(|option| option.strip_prefix(b"subvol=") == Some(part))
}

#[cfg(test)]
mod tests {
    use mounts::MountClass;
    use mounts::tree::Tree;
    use ondisk::Mount;

    use super::*;

    /// Parses lines of mountinfo. The first line is the root mount.
    fn points(table: &str) -> Vec<Point> {
        let rows: Vec<Mount> = table
            .lines()
            .map(|line| ondisk::mountinfo::parse(line.trim().as_bytes()).unwrap())
            .collect();
        let visible = Tree::new(&rows).visible(b"/", rows[0].id);
        let point = |(row, visible): (&Mount, bool)| {
            let target = row.target.clone().unwrap();
            Point::from_row(row.clone(), target, None, MountClass::Leaf, !visible)
        };
        rows.iter().zip(visible).map(point).collect()
    }

    fn fstab_of(table: &str) -> Vec<String> {
        let points = points(&format!("1 0 8:1 / / rw - ext4 /dev/a rw\n{table}"));
        let text = String::from_utf8(fstab(&points, &points)).unwrap();
        text.lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn mnttab_escapes_odd_names() {
        let odd = points("1 0 8:1 / /a\\040b\\012\\134# rw - ext4 none rw");
        assert_eq!(mnttab(&odd), b"none /a\\040b\\012\\134\\043 ext4 rw 0 0\n");
    }

    #[test]
    fn parents_come_first_although_the_table_has_a_moved_child_before() {
        let table = "2 3 0:5 / /new/child rw - tmpfs child rw\n3 1 0:6 / /new rw - tmpfs new rw";
        let expected = [
            "new /new tmpfs rw 0 0",
            "child /new/child tmpfs rw,X-mount.mkdir 0 0",
        ];
        assert_eq!(fstab_of(table), expected);
        let table = format!("1 0 8:1 / / rw - ext4 /dev/a rw\n{table}");
        let text = String::from_utf8(mnttab(&points(&table))).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            ["new /new tmpfs rw 0 0", "child /new/child tmpfs rw 0 0"]
        );
    }

    #[test]
    fn bind_mount_names_its_original() {
        let table = "2 1 8:1 /srv/etc /jail/etc ro - ext4 /dev/a rw\n3 1 0:3 / /proc rw - proc proc rw\n\
            4 1 0:3 / /jail/proc rw - proc proc rw";
        let expected = [
            "/srv/etc /jail/etc none bind,ro 0 0",
            "/proc /jail/proc none bind 0 0",
        ];
        assert_eq!(fstab_of(table), expected);
    }

    #[test]
    fn part_of_a_file_system_that_is_mounted_nowhere_is_skipped() {
        let table = "2 1 8:2 /part /part rw - ext4 /dev/b rw\n3 2 0:5 / /part/on rw - tmpfs on rw\n\
            4 1 8:1 /gone//deleted /gone rw - ext4 /dev/a rw";
        let expected = [
            "# /gone is skipped: its original was removed",
            "# /part is skipped: no other mount shows its original",
            "# /part/on is skipped: the mount that it is on is skipped",
        ];
        assert_eq!(fstab_of(table), expected);
    }

    #[test]
    fn original_is_named_before_a_later_line_covers_it() {
        let table = "2 1 8:2 / /a rw - ext4 /dev/b rw\n3 1 8:2 /part /part rw - ext4 /dev/b rw\n\
            4 2 0:5 / /a rw - tmpfs over rw";
        let expected = [
            "# /a is covered by a later line",
            "/dev/b /a ext4 rw 0 2",
            "/a/part /part none bind 0 0",
            "over /a tmpfs rw 0 0",
        ];
        assert_eq!(fstab_of(table), expected);
    }

    #[test]
    fn only_mount_points_below_the_root_of_a_new_tmpfs_are_created() {
        let table = "2 1 0:5 / /a ro - tmpfs a ro\n3 2 0:6 / /a rw - tmpfs over rw\n\
            4 3 0:7 / /a/b ro - tmpfs b ro\n5 4 0:8 / /a/b/c rw - tmpfs c rw";
        let expected = [
            "# /a is covered by a later line",
            "a /a tmpfs ro 0 0",
            "over /a tmpfs rw 0 0",
            "b /a/b tmpfs ro,X-mount.mkdir 0 0",
            "# /a/b/c is skipped: its mount point cannot be created on an empty tmpfs",
        ];
        assert_eq!(fstab_of(table), expected);
    }

    #[test]
    fn mount_on_a_directory_comes_after_those_below_it() {
        // /a was moved over the other mounts with `mount --move`, although it is first in the
        // table.
        let table = "2 1 0:5 / /a rw - tmpfs over rw\n3 1 8:2 / /a/b rw - ext4 /dev/b rw\n\
            4 3 8:3 / /a/b/c rw - ext4 /dev/c rw";
        let expected = [
            "# /a/b is covered by a later line",
            "/dev/b /a/b ext4 rw 0 2",
            "# /a/b/c is covered by a later line",
            "/dev/c /a/b/c ext4 rw 0 2",
            "over /a tmpfs rw 0 0",
        ];
        assert_eq!(fstab_of(table), expected);
    }

    #[test]
    fn read_only_mount_of_a_device_leaves_its_others_writable() {
        let table =
            "2 1 8:2 / /a ro,relatime - ext4 /dev/b rw\n3 1 8:2 / /b rw,relatime - ext4 /dev/b rw";
        let expected = [
            "/dev/b /a ext4 rw,relatime 0 2",
            "none /a none remount,bind,ro 0 0",
            "/a /b none bind,relatime 0 0",
        ];
        assert_eq!(fstab_of(table), expected);
    }

    #[test]
    fn an_overlay_needs_the_absolute_paths_of_its_layers() {
        let table = "2 1 0:5 / /a rw - overlay overlay rw,lowerdir=/l1:/l\\:2::/data,upperdir=/u,workdir=/w\n\
            3 1 0:6 / /b rw - overlay overlay rw,lowerdir=l/ABC:l/DEF,upperdir=/u,workdir=/w\n\
            4 1 0:7 / /c rw - overlay overlay rw,lowerdir=/l,upperdir=u,workdir=/w\n\
            5 1 0:8 / /d rw - overlay overlay rw\n\
            6 1 0:9 / /e ro - overlay overlay ro,lowerdir+=/l1,lowerdir+=/l2";
        let lines = fstab_of(table);
        let skipped = |at: &str| {
            format!(
                "# {at} is skipped: the mount table does not have the absolute paths of its layers"
            )
        };
        assert!(
            lines.contains(
                &r"overlay /a overlay rw,lowerdir=/l1:/l\:2::/data,upperdir=/u,workdir=/w 0 0"
                    .to_owned()
            ),
            "{lines:?}"
        );
        assert!(
            lines.iter().any(|line| line.starts_with("overlay /e ")),
            "{lines:?}"
        );
        for at in ["/b", "/c", "/d"] {
            assert!(lines.contains(&skipped(at)), "{lines:?}");
        }
    }

    #[test]
    fn subvolume_is_mounted_by_its_option_and_a_directory_in_it_is_bound() {
        let table = "2 1 0:5 /@home /home rw - btrfs /dev/b rw,subvolid=256,subvol=/@home\n\
            3 1 0:5 /@home/joe /joe rw - btrfs /dev/b rw,subvolid=256,subvol=/@home\n\
            4 1 0:5 /@srv/x /x rw - btrfs /dev/b rw,subvolid=257,subvol=/@srv";
        let expected = [
            "/dev/b /home btrfs rw,subvolid=256,subvol=/@home 0 0",
            "/home/joe /joe none bind 0 0",
            "# /x is skipped: no other mount shows its original",
        ];
        assert_eq!(fstab_of(table), expected);
    }
}
