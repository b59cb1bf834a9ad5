//! The output of `fathom space`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use archive::Users;
use base::Capacity;
use ondisk::{Time, utc};
use show::name::printable;
use show::shell::{quoted, quoted_in_script};
use show::table::{Align, RowColour, Table, TableStyle, wrap};
use show::units::{count, plural, size};
use show::{columns, json_object};
use space::bill::{CacheSums, sum};
use space::{AgeSums, Bill, Holder, InodeSums, Item, ItemKind, ItemPart, OwnerSums, Remedy};
use walk::group::AGES;

use crate::cmd::groups::or_number;
use crate::date::Zone;
use crate::json::Json;

pub(crate) struct SpaceReport<'a> {
    /// The directory as given by the user.
    pub(crate) dir: &'a [u8],
    pub(crate) bill: &'a Bill,
    /// `--threshold`: above this percentage, inodes are scarce.
    pub(crate) threshold: Option<f64>,
    pub(crate) users: &'a Users,
    pub(crate) seconds: f64,
}

json_object!(SpaceReport<'_>, |report| {
    name "dir": Some(report.dir),
    name "mount_point": Some(&report.bill.mount_point),
    name "fstype": Some(&report.bill.fstype),
    name "source": report.bill.source.as_deref(),
    "size": report.bill.capacity.size,
    "used": report.bill.capacity.used,
    "available": report.bill.capacity.available,
    "percent": report.bill.capacity.df_percent(),
    "inodes": report.bill.capacity.inodes_df_percent().map(|percent| InodesJson(percent, report.bill)),
    "items": report.bill.items.iter().map(|item| ItemJson { item, users: report.users }).collect::<Vec<_>>(),
    "unaccounted": report.bill.unaccounted(),
    "owners": report.bill.owners.iter().map(|sums| OwnerJson { sums, users: report.users }).collect::<Vec<_>>(),
    "ages": Json(&report.bill.ages[..]),
    "caches": Json(&report.bill.caches[..]),
    "engine": report.bill.engine.name(),
    "files": report.bill.files,
    "seconds": report.seconds,
});

/// The inodes of a file system with a fixed number of them, and their used percentage.
struct InodesJson<'a>(u64, &'a Bill);

json_object!(InodesJson<'_>, |it| {
    "total": it.1.capacity.inodes,
    "used": it.1.capacity.inodes_used,
    "percent": it.0,
    "places": Json(&it.1.inodes[..]),
});

json_object!(Json<'_, InodeSums>, |it| {
    "kind": it.kind.name(),
    name "path": it.path.as_deref(),
    "pid": it.holder.as_ref().and_then(|holder| holder.pid),
    name "program": it.holder.as_ref().map(|holder| &holder.program[..]),
    "inodes": it.inodes,
});

struct ItemJson<'a> {
    item: &'a Item,
    users: &'a Users,
}

json_object!(ItemJson<'_>, |it| {
    "kind": it.item.kind.name(),
    "part": it.item.part.map(ItemPart::name),
    "bytes": it.item.bytes,
    "in_used": it.item.is_in_used,
    "exact": it.item.is_exact,
    name "path": it.item.path.as_deref(),
    name "owner": it.item.owner.map(|owner| or_number(it.users.user(owner), owner)).as_deref(),
    "pid": it.item.holder.as_ref().and_then(|holder| holder.pid),
    name "program": it.item.holder.as_ref().map(|holder| &holder.program[..]),
    "processes": it.item.holder.as_ref().filter(|holder| holder.pid.is_some()).map(|holder| holder.processes),
    "fd": it.item.holder.as_ref().and_then(|holder| holder.fd),
    "inode": it.item.ino,
    "since": it.item.since.map(|time| utc(time.sec)),
    "frees": frees(it.item),
    "command": it.item.remedy.as_ref().map(command),
});

struct OwnerJson<'a> {
    sums: &'a OwnerSums,
    users: &'a Users,
}

json_object!(OwnerJson<'_>, |it| {
    name "owner": Some(&or_number(it.users.user(it.sums.owner), it.sums.owner)),
    "files": it.sums.files,
    "bytes": it.sums.bytes,
});

json_object!(Json<'_, AgeSums>, |it| {
    "age": age(it),
    "files": it.files,
    "bytes": it.bytes,
});

json_object!(Json<'_, CacheSums>, |it| {
    name "path": Some(&it.path),
    "bytes": it.bytes,
    "since": it.since.map(|time| utc(time.sec)),
    "frees": it.freeable,
    "command": command(&it.remedy),
});

fn age(sums: &AgeSums) -> &'static str {
    AGES.get(sums.age).map_or("older", |(name, _)| name)
}

/// The bytes that the command of an item frees; `None` if the command frees nothing.
fn frees(item: &Item) -> Option<u64> {
    match item.remedy.as_ref()? {
        Remedy::LookBeneath { .. } => None,
        _ => Some(item.freeable.unwrap_or(item.bytes.max(0).cast_unsigned())),
    }
}

fn command(remedy: &Remedy) -> String {
    match remedy {
        Remedy::Restart(unit) => {
            let user = if unit.is_of_user { "--user " } else { "" };
            format!("systemctl {user}restart {}", quoted(&unit.name))
        }
        Remedy::Detach {
            device,
            mount_points,
            is_autoclear,
        } => {
            let detach = format!("losetup -d {}", quoted(device));
            if mount_points.is_empty() {
                return detach;
            }
            let mount_points: Vec<String> = mount_points.iter().map(|it| quoted(it)).collect();
            let unmount = format!("umount {}", mount_points.join(" "));
            match is_autoclear {
                true => unmount,
                false => format!("{unmount} && {detach}"),
            }
        }
        Remedy::LowerReserve { device } => format!("tune2fs -m 1 {}", quoted(device)),
        Remedy::DeleteSnapshot {
            path: Some(path), ..
        } => format!("btrfs subvolume delete {}", quoted(path)),
        Remedy::DeleteSnapshot {
            id, mount_point, ..
        } => format!("btrfs subvolume delete -i {id} {}", quoted(mount_point)),
        Remedy::LookBeneath {
            mount_point,
            target,
            rel,
        } => {
            let beneath = [&target[..], b"/", rel].concat();
            let [mount_point, target, beneath] =
                [mount_point, target, &beneath].map(|name| quoted_in_script(name));
            let script = [
                &b"mount --bind "[..],
                &mount_point,
                b" ",
                &target,
                b" && ls -la ",
                &beneath,
            ];
            // A private mount namespace: in that of the user, the new mount would cover the mounts on `target` for
            // all processes.
            format!("unshare -m sh -c {}", quoted(&script.concat()))
        }
        Remedy::Clean(command) => (*command).to_owned(),
    }
}

/// A row of the table: an item, or many deleted files of one process.
struct SpaceRow<'a> {
    item: Cow<'a, Item>,
    files: usize,
}

/// The rows of the table: items, with the deleted files of each process merged if there are many.
fn shown_items(bill: &Bill) -> Vec<SpaceRow<'_>> {
    /// Maximum number of deleted files of a process that have a row each; more files are merged.
    const FEW: usize = 3;
    let pid = |item: &Item| item.holder.as_ref().and_then(|holder| holder.pid);
    let mut by_process: BTreeMap<u32, Vec<&Item>> = BTreeMap::new();
    for item in &bill.items {
        if let Some(pid) = pid(item) {
            by_process.entry(pid).or_default().push(item);
        }
    }
    by_process.retain(|_, items| items.len() > FEW);
    let single = bill.items.iter();
    let single = single.filter(|item| pid(item).is_none_or(|pid| !by_process.contains_key(&pid)));
    let mut shown: Vec<SpaceRow<'_>> = single
        .map(|item| SpaceRow {
            item: Cow::Borrowed(item),
            files: 1,
        })
        .collect();
    shown.extend(by_process.values().map(|items| SpaceRow {
        item: Cow::Owned(Item {
            bytes: sum(items.iter().copied()),
            path: None,
            since: items.iter().filter_map(|item| item.since).min(),
            ..items[0].clone()
        }),
        files: items.len(),
    }));
    // Negative items (space counted more than once) are as important as positive ones of the same
    // size.
    shown.sort_by_key(|it| std::cmp::Reverse(it.item.bytes.unsigned_abs()));
    shown
}

pub(crate) fn text(report: &SpaceReport<'_>, top: usize, zone: &Zone, style: TableStyle) -> String {
    let shown = shown_items(report.bill);
    let mut text = head(report, style);
    text += &items(report, &shown, top, style);
    text += &rest(report, style);
    text += &inode_places(report, top, style);
    text += &divisions(report, style);
    text += &freeable(report, &shown, zone, style);
    text
}

/// The directory in the root of the file system with the most space, if it is worth a look.
pub(crate) fn largest_directory(bill: &Bill) -> Option<&[u8]> {
    let files = bill
        .items
        .iter()
        .filter(|item| item.kind == ItemKind::Files);
    let least = LEAST.cast_signed();
    let large = files.filter(|item| item.bytes >= least);
    // The item with the path of the mount point has the files in the root.
    let below = large.filter(|item| {
        item.path
            .as_deref()
            .is_some_and(|path| path != bill.mount_point)
    });
    below.max_by_key(|item| item.bytes)?.path.as_deref()
}

/// The heading: the file system, and a bar of its used space.
fn head(report: &SpaceReport<'_>, style: TableStyle) -> String {
    const MOST: usize = 60;
    let bill = report.bill;
    let capacity = &bill.capacity;
    let mount_point = printable(&bill.mount_point);
    let fstype = match &bill.fstype[..] {
        b"" => "unknown type".into(),
        fstype => printable(fstype),
    };
    let mut text = format!("{mount_point}: {fstype}");
    if let Some(source) = &bill.source {
        text += &format!(" on {}", printable(source));
    }
    text += &format!(
        ", {}: {} used ({}), {} available",
        size(capacity.size),
        size(capacity.used),
        whole_percent(capacity.df_percent()),
        size(capacity.available)
    );
    let reserved = capacity
        .size
        .saturating_sub(capacity.used)
        .saturating_sub(capacity.available);
    if reserved > 0 {
        text += &format!(", {} reserved", size(reserved));
    }
    let mut text = style.wrapped(&text);
    if let Some(width) = style.width
        && capacity.size > 0
    {
        let width = width.min(MOST);
        let share =
            |bytes: u64| (u128::from(bytes) * width as u128 / u128::from(capacity.size)) as usize;
        let used = share(capacity.used).min(width);
        let reserved = share(reserved).min(width - used);
        let free = width - used - reserved;
        text += &format!(
            "{}{}{}\n",
            "█".repeat(used),
            "▒".repeat(reserved),
            "░".repeat(free)
        );
    }
    if has_scarce_inodes(report) {
        text += &style.wrapped(&format!(
            "inodes: {} of {} used ({})",
            count(capacity.inodes_used),
            count(capacity.inodes),
            whole_percent(capacity.inodes_df_percent())
        ));
    }
    text + "\n"
}

/// Whether the file system has few inodes left, or more are used than `--threshold` allows.
fn has_scarce_inodes(report: &SpaceReport<'_>) -> bool {
    let capacity = &report.bill.capacity;
    let is_full = |percent: f64| percent >= Capacity::NEARLY_FULL;
    let is_above = |percent: u64| report.threshold.is_some_and(|most| percent as f64 > most);
    capacity.inodes_percent().is_some_and(is_full)
        || capacity.inodes_df_percent().is_some_and(is_above)
}

/// The directories and processes with the most inodes, if inodes are scarce.
fn inode_places(report: &SpaceReport<'_>, top: usize, style: TableStyle) -> String {
    let bill = report.bill;
    if !has_scarce_inodes(report) || bill.inodes.is_empty() {
        return String::new();
    }
    let has_holders = bill.inodes.iter().any(|it| it.holder.is_some());
    let mut heads = columns![>"INODES", >"OF USED", <"WHERE", <"KIND"].to_vec();
    heads.extend(has_holders.then_some(("HELD BY", Align::Right)));
    let mut table = Table::new(&heads, 0);
    let mut row = |inodes: u64, place: String, kind: &str, holder: String| {
        let share = percent(inodes, bill.capacity.inodes_used);
        let cells = [count(inodes), share, place, kind.to_owned(), holder];
        table.row(cells.into_iter().take(heads.len()), RowColour::Plain);
    };
    let (largest, more) = bill.inodes.split_at(bill.inodes.len().min(top));
    for it in largest {
        let place = match &it.path {
            Some(path) => printable(path).into_owned(),
            None => plural(it.inodes, "file", "files"),
        };
        let holder = it.holder.as_ref().map_or(String::new(), held_by);
        row(it.inodes, place, it.kind.name(), holder);
    }
    if !more.is_empty() {
        let inodes = more.iter().map(|it| it.inodes).sum();
        let place = format!("({} more)", count(more.len() as u64));
        row(inodes, place, "", String::new());
    }
    table.keep(heads.len());
    format!("\n{}\n", table.to_text(style.width, style.color))
}

/// A percentage of df(1): `28 %`.
fn whole_percent(percent: Option<u64>) -> String {
    percent.map_or("-".to_owned(), |percent| format!("{percent} %"))
}

/// A percentage of a whole: `28 %`.
fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        whole => match part as f64 * 100.0 / whole as f64 {
            share if share > 0.0 && share < 0.1 => "<0.1 %".to_owned(),
            share if share < 10.0 && share > 0.0 => format!("{share:.1} %"),
            share => format!("{share:.0} %"),
        },
    }
}

/// The percentage of an item, negative for bytes that other items count more than once.
fn share(bytes: i64, used: u64) -> String {
    let share = percent(bytes.unsigned_abs(), used);
    if bytes >= 0 || used == 0 {
        return share;
    }
    match share.strip_prefix('<') {
        Some(least) => format!(">-{least}"),
        None => format!("-{share}"),
    }
}

fn signed(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    format!("{sign}{}", size(bytes.unsigned_abs()))
}

/// The columns of the table of items. OF USED is the share of the used space. HELD BY is aligned to
/// the right, because a table never shortens such a column, so the process id at its end stays.
const COLUMNS: [(&str, Align); 6] = columns![
    >"SIZE", >"OF USED", <"WHERE", <"KIND", >"HELD BY", <"OWNER"
];

/// The table of the largest items, and of the items that df does not count as used.
fn items(
    report: &SpaceReport<'_>,
    shown: &[SpaceRow<'_>],
    top: usize,
    style: TableStyle,
) -> String {
    /// The width of a terminal below which the column of shares is omitted.
    const NARROW: usize = 60;
    let bill = report.bill;
    let is_narrow = style.width.is_some_and(|width| width < NARROW);
    let has_holders = bill.items.iter().any(|item| item.holder.is_some());
    let is_shown = |at: usize| match at {
        1 => !is_narrow,
        4 => has_holders,
        _ => true,
    };
    let heads: Vec<_> = (0..)
        .zip(COLUMNS)
        .filter(|(at, _)| is_shown(*at))
        .map(|it| it.1)
        .collect();
    let mut table = Table::new(&heads, 0);
    let mut row = |cells: [String; 6], tone| {
        let cells = (0..).zip(cells).filter(|(at, _)| is_shown(*at));
        table.row(cells.map(|(_, cell)| cell), tone);
    };
    let (used, others): (Vec<&SpaceRow<'_>>, Vec<&SpaceRow<'_>>) =
        shown.iter().partition(|it| it.item.is_in_used);
    let (largest, more) = used.split_at(used.len().min(top));
    for it in largest {
        row(cells(it, report), RowColour::Plain);
    }
    if !more.is_empty() {
        let bytes = sum(more.iter().map(|it| &*it.item));
        let mut cells: [String; 6] = Default::default();
        cells[0] = signed(bytes);
        cells[1] = share(bytes, bill.capacity.used);
        let files: usize = more.iter().map(|it| it.files).sum();
        cells[2] = format!("({} more)", count(files as u64));
        row(cells, RowColour::Plain);
    }
    for it in others {
        let mut cells = cells(it, report);
        cells[1] = "-".to_owned();
        row(cells, RowColour::Dim);
    }
    if table.is_empty() {
        return String::new();
    }
    table.keep(heads.len() - 1); // OWNER is omitted first
    table.to_text(style.width, style.color)
}

fn cells(shown: &SpaceRow<'_>, report: &SpaceReport<'_>) -> [String; 6] {
    let item = &shown.item;
    let place = match (&item.path, item.part) {
        (Some(path), _) => printable(path).into_owned(),
        (None, Some(part)) => place(item.kind, part).to_owned(),
        (None, None) => match item.kind {
            ItemKind::Shared => "counted more than once".to_owned(),
            ItemKind::Journal => "journal".to_owned(),
            ItemKind::Deleted if shown.files > 1 => plural(shown.files as u64, "file", "files"),
            ItemKind::Deleted => unnamed(item),
            _ => String::new(),
        },
    };
    let owner = item.owner.map_or(String::new(), |owner| {
        printable(&or_number(report.users.user(owner), owner)).into_owned()
    });
    let holder = item.holder.as_ref().map_or(String::new(), held_by);
    [
        signed(item.bytes),
        share(item.bytes, report.bill.capacity.used),
        place,
        item.kind.name().to_owned(),
        holder,
        owner,
    ]
}

/// The program that holds a deleted file, or the loop device.
fn held_by(holder: &Holder) -> String {
    let program = printable(&holder.program);
    match (holder.pid, holder.processes) {
        (None, _) => program.into_owned(),
        (Some(pid), 0 | 1) => format!("{program} (PID {pid})"),
        (Some(pid), n) => format!("{program} (PID {pid} and {} more)", n - 1),
    }
}

/// The name of a part of the metadata or of the reserve.
fn place(kind: ItemKind, part: ItemPart) -> &'static str {
    match part {
        ItemPart::Tables => "inode tables, bitmaps, descriptors",
        ItemPart::Headers => "headers of allocation groups",
        ItemPart::Inodes => "inodes",
        ItemPart::Trees if kind == ItemKind::Metadata => "trees of the file system",
        ItemPart::Trees => "trees",
        ItemPart::System => "tree of chunks",
        ItemPart::CopyOnWrite => "blocks that are being copied",
        ItemPart::Root => "for root",
        ItemPart::User => "for a user (resuid=, resgid=)",
        ItemPart::FileSystem => "for the file system",
        ItemPart::ForMetadata => "for metadata",
        ItemPart::AtLeast => "counted more than once, at least",
        ItemPart::Within => "by several directories",
        ItemPart::Between => "by several subvolumes",
    }
}

/// A line with the used space that no item accounts for.
fn rest(report: &SpaceReport<'_>, style: TableStyle) -> String {
    let Some(unaccounted) = report.bill.unaccounted() else {
        let text = format!(
            "how much is not accounted for is unknown: {}",
            report.bill.inexact().map_or("", uncertainty)
        );
        return style.wrapped(&text);
    };
    let share = percent(unaccounted.unsigned_abs(), report.bill.capacity.used);
    let text = match unaccounted {
        0 => "all of it is accounted for".to_owned(),
        1.. => format!(
            "not accounted for: {} ({share} of used)",
            signed(unaccounted)
        ),
        _ => format!(
            "the items have {} more than df ({share} of used)",
            size(unaccounted.unsigned_abs())
        ),
    };
    let why = match &report.bill.fstype[..] {
        b"overlay" if unaccounted > 0 => "; df has the file system of the upper layer",
        _ => "",
    };
    style.wrapped(&(text + why))
}

/// The reason why the size of an item is not exact.
fn uncertainty(item: &Item) -> &'static str {
    match (item.kind, item.part) {
        (_, Some(ItemPart::AtLeast)) => "the number of shared bytes is a minimum",
        (ItemKind::Deleted, _) => "the size of the deleted file is an estimate",
        _ => "the size of the metadata is an estimate",
    }
}

/// The files by owner and by age, one line each.
fn divisions(report: &SpaceReport<'_>, style: TableStyle) -> String {
    const MOST: usize = 3;
    let bill = report.bill;
    // If the items count shared blocks several times, the sums by owner and by age do so, too. The
    // item for shared blocks is negative by these bytes; print them.
    let repeated = bill.items.iter().filter(|item| item.bytes < 0);
    let repeated = repeated.filter(|item| item.kind == ItemKind::Shared);
    let repeated = sum(repeated);
    let owners = bill.owners.iter().take_while(|sums| sums.bytes > 0);
    let owners = owners.take(MOST).map(|sums| {
        let name = or_number(report.users.user(sums.owner), sums.owner);
        format!("{} {}", printable(&name), size(sums.bytes))
    });
    let mut owners: Vec<String> = owners.collect();
    let rest: u64 = bill.owners.iter().skip(MOST).map(|sums| sums.bytes).sum();
    if rest > 0 {
        owners.push(format!("{} more {}", bill.owners.len() - MOST, size(rest)));
    }
    let ages = bill.ages.iter().filter(|sums| sums.bytes > 0);
    let ages: Vec<String> = ages
        .map(|sums| format!("{} {}", age(sums), size(sums.bytes)))
        .collect();
    let repeated = match repeated {
        0 => String::new(),
        bytes => format!(", counted more than once {}", signed(bytes)),
    };
    let line = |head: &str, parts: &[String]| match parts {
        [] => String::new(),
        parts => style.wrapped(&format!("{head}: {}{repeated}", parts.join(", "))),
    };
    line("by owner", &owners) + &line("by last change", &ages)
}

/// The freeable space, with the commands that free it.
fn freeable(
    report: &SpaceReport<'_>,
    shown: &[SpaceRow<'_>],
    zone: &Zone,
    style: TableStyle,
) -> String {
    const MOST: usize = 5;
    let bill = report.bill;
    let items = shown.iter().filter_map(|it| {
        let item = &it.item;
        let bytes = match item.kind {
            ItemKind::Hidden | ItemKind::Deleted => item.bytes.max(0).cast_unsigned(),
            _ => frees(item)?,
        };
        Some((bytes, advice(it), since(item.since, zone)))
    });
    let caches = bill.caches.iter().map(|cache| {
        let advice = (command(&cache.remedy), printable(&cache.path).into_owned());
        (cache.freeable, advice, since(cache.since, zone))
    });
    let mut all: Vec<(u64, (String, String), String)> = items.chain(caches).collect();
    all.retain(|(bytes, ..)| *bytes >= LEAST);
    all.sort_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
    if all.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}", style.heading("What can be freed:"));
    for (bytes, (command, comment), since) in all.iter().take(MOST) {
        let lines = advice_lines(command, comment, since, style);
        text += &format!("{:>9}  {}\n", size(*bytes), lines.join("\n           "));
    }
    if all.len() > MOST {
        let (rest, sum) = (all.len() - MOST, all.iter().skip(MOST).map(|it| it.0).sum());
        let more = plural(rest as u64, "more item", "more items");
        text += &format!("{:>9}  {more}: see --json\n", size(sum));
    }
    text
}

/// Freeable items below this size are not listed.
const LEAST: u64 = 1 << 20;

/// A command and its comment, on separate lines if they do not fit the terminal together. Commands are neither truncated nor
/// wrapped, so that they can be copied; advice without a comment is a sentence.
fn advice_lines(command: &str, comment: &str, since: &str, style: TableStyle) -> Vec<String> {
    const BEFORE: usize = 11;
    const MARK: &str = "# ";
    let room = style.width.unwrap_or(usize::MAX).saturating_sub(BEFORE);
    let wrapped = |text: &str, room| -> Vec<String> {
        let lines = wrap(text, room);
        lines.lines().map(str::to_owned).collect()
    };
    if comment.is_empty() {
        return wrapped(&format!("{command}{since}"), room);
    }
    let comment = format!("{comment}{since}");
    let one = wrapped(&format!("{command}  {MARK}{comment}"), room);
    if one.len() == 1 {
        return one;
    }
    let comments = wrapped(&comment, room.saturating_sub(MARK.len()));
    let comments = comments.iter().map(|line| format!("{MARK}{line}"));
    std::iter::once(command.to_owned())
        .chain(comments)
        .collect()
}

/// The command that frees an item and a comment about the object; or a sentence and no comment.
fn advice(shown: &SpaceRow<'_>) -> (String, String) {
    let item = &shown.item;
    let path = item.path.as_deref().map(printable).unwrap_or_default();
    let comment = match item.kind {
        ItemKind::Deleted if shown.files > 1 => {
            plural(shown.files as u64, "deleted file", "deleted files")
        }
        ItemKind::Deleted if item.path.is_none() => format!("deleted file, {}", unnamed(item)),
        ItemKind::Deleted => format!("deleted file {path}"),
        ItemKind::Hidden => "look before you remove anything".to_owned(),
        ItemKind::Snapshot => "a snapshot".to_owned(),
        ItemKind::Reserved => "the reserve for root".to_owned(),
        _ => path.to_string(),
    };
    let sentence = |text: String| (text, String::new());
    match (&item.remedy, &item.holder) {
        (Some(remedy), _) => (command(remedy), comment),
        (None, Some(holder)) => {
            let program = printable(&holder.program);
            let pid = holder
                .pid
                .map_or(String::new(), |pid| format!(" (PID {pid})"));
            match (holder.pid, holder.fd) {
                (None, _) => sentence(format!(
                    "find what uses {program} (lsblk, losetup -l): {comment}"
                )),
                (Some(id), Some(fd)) if shown.files == 1 => (
                    format!("end or restart {program}{pid}, or : > /proc/{id}/fd/{fd}"),
                    format!("{comment}, emptied for the process, too"),
                ),
                _ => sentence(format!("end or restart {program}{pid}: {comment}")),
            }
        }
        (None, None) if item.kind == ItemKind::Deleted => sentence(format!(
            "find who holds it (a container, an NFS client, the kernel): {comment}"
        )),
        (None, None) => sentence(comment),
    }
}

/// A deleted file without a known path: its inode number, if known.
fn unnamed(item: &Item) -> String {
    item.ino.map_or(String::new(), |ino| format!("inode {ino}"))
}

fn since(time: Option<Time>, zone: &Zone) -> String {
    time.map_or(String::new(), |time| {
        let text = zone.text(time.sec);
        let minutes = text
            .rsplit_once(':')
            .map_or(&text[..], |(minutes, _)| minutes);
        format!(", since {minutes}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_item_has_a_negative_percentage() {
        assert_eq!(share(5, 100), "5.0 %");
        assert_eq!(share(-12, 100), "-12 %");
        assert_eq!(share(-1, 100_000), ">-0.1 %");
        assert_eq!(share(-1, 0), "-");
    }
}
