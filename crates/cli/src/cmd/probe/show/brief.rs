//! The conclusions of a probe on one screen: properties in words, and a row for each call.

use ::show::columns;
use ::show::table::{Table, TableStyle};
use ::show::units::{duration, plural, size};
use probe::{MeasuredFinding, Price, Quantity};

use super::methods::{RAISE_BYTES, hint};
use super::{Report, compared, heading, target};

/// The names of the properties in words.
const PROPERTIES: [(Quantity, &str); 12] = [
    (Quantity::RawOverhead, "time to read the clock"),
    (Quantity::EmptyCall, "time of an empty system call"),
    (Quantity::AllocationBlock, "allocation unit"),
    (Quantity::PageCacheGranule, "unit of the page cache"),
    (Quantity::DirectIoAlignment, "alignment of direct I/O"),
    (Quantity::ReadaheadInitial, "first readahead window"),
    (Quantity::ReadaheadSteady, "largest readahead window"),
    (Quantity::CacheCapacity, "page cache that holds a file"),
    (Quantity::CacheLimit, "limit of the page cache"),
    (Quantity::Extents, "extents of a new file"),
    (Quantity::ExtentLargest, "largest extent of that file"),
    (Quantity::FreeSpaceInPieces, "free space in small pieces"),
];

/// The report on one screen.
pub(crate) fn text(report: Report<'_>, style: TableStyle) -> String {
    let mut text = heading(report);
    let properties = properties(report);
    if !properties.is_empty() {
        text += &properties.to_text(style.width, style.color);
        let limit = report.limit_of_cache();
        text += &limit.map_or(String::new(), |limit| style.wrapped(&limit));
    }
    if let Some(prices) = report.report.prices.as_deref().filter(|it| !it.is_empty()) {
        text.push('\n');
        text += &calls(prices).to_text(style.width, style.color);
    }
    text + "\n" + &style.wrapped(&io_line(report))
}

fn properties(report: Report<'_>) -> Table {
    let columns = columns![<"PROPERTY", >"MEASURED", >"KERNEL", <"AGREES"];
    let mut table = Table::new(&columns, PROPERTIES.len());
    for (quantity, words) in PROPERTIES {
        let Some(finding) = report.report.find(quantity) else {
            continue;
        };
        let (cells, tone) = compared(finding);
        table.row([words.to_owned()].into_iter().chain(cells), tone);
    }
    table
}

/// A row for each call: its time with warm caches, on several threads at once, and with cold
/// caches.
fn calls(prices: &[Price]) -> Table {
    let threads = prices.iter().map(|price| price.threads).max().unwrap_or(1);
    let together = format!("{} AT ONCE", plural(threads as u64, "THREAD", "THREADS"));
    let columns = columns![<"SYSTEM CALL", <"TARGET", >"WARM", >&together[..], >"COLD"];
    let mut of_calls: Vec<&Price> = Vec::new();
    for price in prices {
        if of_calls.iter().all(|known| known.call != price.call) {
            of_calls.push(price);
        }
    }
    let row = |first: &&Price| {
        let time = |is_meant: &dyn Fn(&Price) -> bool| {
            let mut same = prices.iter().filter(|price| price.call == first.call);
            let price = same.find(|price| is_meant(price));
            price.map_or("-".to_owned(), |price| duration(price.ns / 1e9))
        };
        [
            first.call.name().to_owned(),
            target(first.call).to_owned(),
            time(&|price| price.warm && price.threads <= 1),
            time(&|price| price.warm && price.threads > 1),
            time(&|price| !price.warm),
        ]
    };
    Table::from_rows(&columns, of_calls.iter().map(row))
}

/// A line with the bytes read and written, and the flags that print more.
fn io_line(report: Report<'_>) -> String {
    let measured = &report.report.measured;
    // All findings of an experiment carry its total I/O, so count only the first.
    let mut of_experiments: Vec<&MeasuredFinding> = measured.iter().collect();
    of_experiments.dedup_by_key(|it| it.finding.quantity.experiment());
    let used = of_experiments.iter().map(|it| it.io_bytes);
    let (read, written) = used.fold((0, 0), |(read, written), used| {
        (read + used.read, written + used.written)
    });
    let findings = measured.iter().map(|it| &it.finding);
    let unknown: Vec<_> = findings
        .filter(|it| it.value().is_none() && !it.is_none())
        .collect();
    let mut why = match unknown.len() {
        0 => String::new(),
        1 => " 1 property is unknown: --full says why.".to_owned(),
        n => format!(" {n} properties are unknown: --full says why."),
    };
    let mut obstacles = unknown.iter().filter_map(|it| it.obstacle());
    if obstacles.any(|why| hint(why) == RAISE_BYTES) {
        why += " The limit --max-bytes was too small for some: raise it.";
    }
    format!(
        "{} read, {} written. --full prints every property and its confidence.{why}",
        size(read),
        size(written)
    )
}
