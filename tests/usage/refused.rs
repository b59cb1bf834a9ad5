//! A table of invalid command lines of all commands. Command lines that need more than a few files
//! are in the tests of their command.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::panic::catch_unwind;
use std::path::Path;

use crate::support::build::{dir, file};
use crate::support::{fathom, run};

/// One command line per line, without the name of the program: words separated by spaces, where
/// `''` is an empty word, and `{a,b}` stands for each of its alternatives. After `=>` texts that
/// stderr must contain, separated by `&&`; after `==` its first line.
///
/// The commands run in a directory with the file `f` of one byte, the empty file `catalog`, the
/// directory `s`, and the symlinks `to-f` and `dangling`.
const REFUSED: &str = "
frobnicate => hint: see fathom -h
nonsense
completions nonsense
wlak . => hint: did you mean 'walk'?
du s => hint: use fathom walk DIR --format du; see fathom -h
df s => hint: use fathom space DIR
find s -name f => hint: use fathom walk DIR --format paths
backup s => hint: use fathom dump SRC -o ARCHIVE
extract f => hint: use fathom restore ARCHIVE
strace true => hint: use fathom account COMMAND
diff f s => hint: use fathom changed DIR --since CATALOG, or fathom query --diff OLD NEW
prune s => hint: use fathom dump --state DIR --prune

walk . -name f => unexpected argument '-n' in '-name' && hint: use --name; see fathom walk -h
query f -size +1M => hint: use --size; see fathom query -h
walk . {--newer,-newer} f => hint: use --changed-within TIME; see fathom walk -h
walk . {-mtime,--mtime,--mmin} -1 => hint: use --changed-within TIME
walk . -maxdepth 2 => hint: use --max-depth N
walk . {-xdev,--xdev} => hint: use -x
walk . {-nouser,--nouser} => hint: use --group-by owner
walk . --min-size 1M => hint: use --size +N
walk . --max-size 1M => hint: use --size -N
walk . --inodes => hint: use --format du --sort count
walk . --by x => hint: use --engine ENGINE, or --group-by FIELD
walk . --du => hint: use --format du
walk . {-delete,--delete,-exec} => hint: use --format paths0 and pipe it into xargs -0
walk -s . => hint: use --format du --max-depth 0
walk . -d1 => hint: use --max-depth N
walk . --changed-after 2d => hint: use --changed-within TIME
walk . {--older,--older-than} 180d => hint: use --changed-before TIME
query f --older 180d => hint: use --changed-before TIME
query f --format restic => --format restic requires --diff && hint: use --diff OLD NEW
mounts {-t,--fs,--type} ext4 => hint: use fathom survey DIR for types
changed s --state s => hint: use --since DIR/level-N.parquet
changed s --since {yesterday,2d,2026-11-20} => hint: --since takes a catalog
dump -czf a.tar s => hint: use fathom dump SRC -o ARCHIVE
dump s {-r,--repo} r => hint: use --restic REPO
restore -xf f => hint: use fathom restore ARCHIVE -C DIR
restore f --target s => hint: use fathom restore ARCHIVE -C DIR

mounts missing --by {auto,kernel,search,naive} => No such file or directory (os error 2) && 'missing'
mounts f --by {auto,kernel,search,naive} => Not a directory (os error 20)
mounts ''
mounts --by nonsense => nonsense && kernel && mountinfo && search && getmnt3 && getmnt2 && getmnt1 && naive
mounts --format nonsense
mounts --names nonsense
mounts --color nonsense
mounts --nonsense
mounts / /
mounts --by search --depth 4
mounts --by getmnt1 --depth -1
mounts --by getmnt1 --depth many
mounts --by naive --hints none
mounts --by search --hints /no/such/file
mounts --trials 3
mounts --compare --trials 0
mounts --compare --watch
mounts --compare --by search
mounts --deadline 1s
mounts --check --deadline soon
mounts --check --deadline -1s => '-1s' for '--deadline <DURATION>': use a duration over 0
mounts --check --deadline 2d => use a duration such as 500ms, 2s, 1m or 1h30m
mounts --json --format paths
mounts --watch --check
mounts --watch --format fstab
mounts --watch --assert /
mounts --assert
mounts --watch --by naive
mounts --assert / --by search
mounts --compare --servers
mounts {--beneath,--boundaries,--servers} --format paths => cannot be used with this --format && hint: use --format table
mounts --compare --format mnttab
mounts --assert / --format paths
mounts --beneath --by naive
mounts --beneath --by getmnt1

walk
walk missing --engine {auto,stat,threads} => No such file or directory (os error 2) && 'missing'
walk f --engine {auto,stat,threads} => Not a directory (os error 20)
walk dangling --engine {auto,stat,threads}
walk f/below --engine {auto,stat,threads}
walk '' --engine {auto,stat,threads}
walk . missing --format paths
walk . --engine nonsense
walk . --engine null
walk . --engine xfs => threads, bulkstat, btrfs, ext4, stat
walk . --engine bulkstaat => hint: did you mean 'bulkstat'?
walk . --format nonsense
walk . --formt du => hint: did you mean '--format'?
walk . --nonsense
walk . --jobs {0,many} => use a whole number from 1 to 65535
walk . -j {0,many}
walk . -j -1 => '-1' for '--jobs <N>': use a whole number from 1 to 65535
walk . --max-depth -1 => '-1' for '--max-depth <N>': use a whole number of at least 0
walk . --max-depth deep
walk . --top many
walk . --top -1 => '-1' for '--top <N>': use a whole number of at least 1
walk . --json --format {paths,ndjson}
walk . --compare --engine stat
walk . --compare --format paths
walk . --compare --trials 0 => '0' for '--trials <N>': use a whole number from 1 to 65535
walk . --catalog
walk . --top 3 --format ncdu => hint: use --format summary or --format du
walk . --explain --compare
walk . --trials 3
walk . --exclusive
walk . --exclusive --format paths
walk s --max-rate {0,-1,fast} => --max-rate
walk . --group-by {colour,dir:x} => hint:
walk . --group-by owner --format {paths,du} => hint:
walk . --group-by owner --format csv --json => hint:
walk . --sort name => hint:
walk . --time atime => --time requires --changed-within, --changed-before or --group-by age && hint:
walk . --time atime --group-by owner => --time requires
walk . --run x {--explain,--compare} => --run requires --shard or mpirun
query f --time atime => --time requires
changed s --since f --time atime => --time requires
walk . --group-by ext --group-by owner => '--group-by <FIELD[:N]>' cannot be used multiple times && hint: give it once; see fathom walk -h
walk . --changed-before 60d --time atime --changed-before 60d --time mtime => '--time <FIELD>' cannot be used multiple times
walk . {--top,--max-depth,--min-depth} 2 --max-depth 1 --top 1 --min-depth 1 => cannot be used multiple times
walk . --sort bytes => hint: add --top N for the largest files
walk . --sort count --top 3 => hint: add --format du
walk . --format {paths,paths0,ndjson,csv} --sort bytes => hint: add --top N for the largest files
walk . --format {csv,ndjson} --sort name => sort files with --sort bytes --top N
walk . --format csv --top 3 --sort name => sort files with --sort bytes --top N
walk /usr/lib/os-release/.. --size 3X => use +N, -N or N with a unit && hint:
walk /usr/lib/os-release/.. --changed-within soon => 2026-11-20 && hint:
walk /usr/lib/os-release/.. --changed-before 2026-02-30 => 2026-11-20 && hint:
walk /usr/lib/os-release/.. --owner {nobody-has-this-name,:nobody-has-this-name} => does not exist && hint:
walk /usr/lib/os-release/.. --perm rwx => octal mode && hint:
walk /usr/lib/os-release/.. --links x => number of links && hint:
walk /usr/lib/os-release/.. --type x => possible values && hint:
walk /usr/lib/os-release/.. --regex ( => unclosed group && hint:
walk /proc/self/fd --shard={3/3,1,0/0,a/b,-1/2,1/2/3,/} => I from 0 to N - 1
walk /dev /sys --shard 0/2 => several DIRs
walk /dev --shard 0/2 --format du => the whole tree
walk /dev --run x => --shard
walk /dev --shard 0/2 --catalog /proc/self/status => /proc/self/status
walk s --catalog {az://c/k,azure://c/k,gs://b/k,gs://,b2://b/k} => only URLs of S3 stores are supported: s3://BUCKET/KEY && hint: rclone serve s3
walk s --shard 0/2 --catalog gs://b/k => only URLs of S3 stores are supported: s3://BUCKET/KEY && hint: rclone serve s3

query . --exclusive
query --diff f f --diff f f => cannot be used multiple times
query {gs://b/k,gs://b/} => only URLs of S3 stores are supported: s3://BUCKET/KEY && hint: rclone serve s3

changed
changed .
changed . --since
changed --since x
changed . . --since x
changed . --since x --format nonsense
changed s --since gs://b/k => only URLs of S3 stores are supported: s3://BUCKET/KEY && hint: rclone serve s3

dump
dump f
dump '' -o x.tar
dump -o x.tar
dump f -o
dump f -o x.tar --nonsense
dump f -o x.tar -o y.tar => cannot be used multiple times
dump f --state s --keep-daily 7 --keep-daily 3 => cannot be used multiple times
dump f -o {az://c/k,azure://c/k,gs://b/k} => only URLs of S3 stores are supported: s3://BUCKET/KEY && hint: rclone serve s3
dump f -o x.tar --catalog gs://b/k => only URLs of S3 stores are supported: s3://BUCKET/KEY && hint: rclone serve s3
dump f -o gs://b/k --level 0 --state gs://b/s => only URLs of S3 stores are supported: s3://BUCKET/KEY && hint: rclone serve s3
dump f -o x.tar --gather nonsense
dump f -o x.tar -j 0
dump f -o x.tar --level 10 --state s
dump . -o x --level 12 => '12' for '--level <N>': use a whole number from 0 to 9
dump f -o x.tar --level 1 == missing: --state DIR
dump f -o x.tar --state s
dump f -o x.tar --level 1 --state s --since c
dump f -o x.tar --level 1 --state s --catalog c
dump f --no-output --catalog c
dump f -o - --json
dump missing -o x.tar
dump f missing -o x.tar --catalog c => 'missing' && every SRC must exist
dump f missing -o x.tar --level {0,1} --state s => 'missing' && every SRC must exist
dump f/g -o x.tar
dump f -o missing/x.tar
dump f -o .
dump f -o x.tar --map missing/map
dump f -o x.tar --map x.tar
dump f -o x.tar --catalog ./x.tar
dump f -o x.tar --catalog c --map c
dump f -o x.tar --catalog -
dump f -o f
dump missing f -o ./f
dump f -o x.tar --catalog to-f
dump f -o x.tar --map f
dump s == missing: --output ARCHIVE, or --state DIR
dump s --restic r --keep-daily 7 => --keep-daily and the like cannot be used with --restic && restic forget
dump s --restic r --state s --keep-last 7 => cannot be used with --restic && restic forget
dump s --restic r --state s --full-every 7 => --full-every cannot be used with --restic
dump s -o x.tar --keep-daily 7 == missing: --state DIR
dump s -o x.tar --level 1 == missing: --state DIR
dump s -o x.tar --yes == --yes can only be used with --prune
dump --yes == --yes can only be used with --prune
dump --keep-full 2 == --keep-full can only be used with --prune
dump --prune == missing: --state DIR
dump --prune --state s == --prune requires --keep-full, or --keep-daily and the like
dump --prune --state s --keep-last 1 {--exclude,--compress} gzip => cannot be used with
dump --prune --yes --keep-full 1 == missing: --state DIR

verify => missing: ARCHIVE
verify f --ignore mtime => --against
verify f --against . --ignore atime => mtime && xattrs
{list,restore,verify} gs://b/k => only URLs of S3 stores are supported: s3://BUCKET/KEY && hint: rclone serve s3
list --state gs://b/s => only URLs of S3 stores are supported: s3://BUCKET/KEY && hint: rclone serve s3
verify --state s -- x => cannot be used with PATH && --to - PATH
restore --state s --to x f => give - for standard output
verify --state s == cannot find a dump in 's': no dump is recorded in it

account
account --calls 1.5 ls
account --top -1 ls
account --top 0 -- true
account --by directory:x ls
account --by file true => the table Files
account --by directory:0 true => at least 1
account --by file -- true
account --prices {/no/such/file,/proc/self/status} ls
account -o /no/such/directory/report ls
account --quiet --verbose ls
account --csv {--folded,--json} true
account --
account --json --model -- true
account --meter {none,perf} -- true => possible values: auto, bpf, ptrace
account --metre ls -l => did you mean '--meter'?
account --jsn ls -l => did you mean '--json'?
account --calls2 ls -l => did you mean '--calls'?
account -x ls
account --mix 40:60 true == --mix requires --model
account --share 50 true == --share requires --model
account --system-share 50 true == --system-share requires --model
account --model {/no/such/file,/,/dev/null}
account --model /dev/null --mix 40
account --model --mix 0:0
account --model --share 101
account --model --share -5 => '-5' for '--share <PERCENT>': use a number from 0 to 100

pathsearch => COMMAND
pathsearch --rtt {fast,-1ms} -- true
pathsearch --rtt 5 true => a duration needs a unit, such as 5ms or 5s
pathsearch --rtt fast true => use a duration such as 500us or 2ms, or auto
pathsearch --rrt 5ms true => did you mean '--rtt'?
pathsearch --nodes {0,x} -- true
pathsearch --name true => unexpected argument '--name'
pathsearch --server-rate {0,nan} -- true
pathsearch --network /no/such/directory -- true
pathsearch --meter no-such-meter -- true
pathsearch --metr bpf true => did you mean '--meter'?
pathsearch -o /no/such/directory/file -- true
pathsearch --apply-path --json -- true
pathsearch --full {--apply-path,--files0} true => cannot be used with

space x y
space --top {0,-1,x}
space --deadline fast => use a duration such as 500ms, 2s, 1m or 1h30m

pathwalk
pathwalk -c
pathwalk x
pathwalk -c x y
pathwalk -t -l {0,-1} x
pathwalk -t -f {-1,many,18446744073709551616,18446744073709551615} x
pathwalk -t -l 18446744073709551615 -f 0 x
pathwalk -t -j 0 x
pathwalk -t --repeat 0 x
pathwalk -t --method magic x
pathwalk -t --cold=all x
pathwalk -t --cold host x => hint: write --cold=host; see fathom pathwalk -h
pathwalk -c --plot /no/such/directory x
pathwalk -c ''
pathwalk -c {--latency,-j2,--repeat=2,--method=open,--cold} x => missing: --test

probe
probe /no/such/directory
probe /dev/null
probe s dreams
probe s blok => did you mean 'block'?
probe s --max-bytes lots
probe s --max-bytes 5X => 64K
probe . --max-bytes 3X => use a whole number with a unit, such as 64K, 1M or 2G
probe s --max-seconds 0s
probe s --max-seconds 5x => use a duration
probe s --cache-limit 1K => from 16M to 4G
probe s block --method paper => hint: add cache to the experiments
probe s block --cache-limit 64M => hint: add cache to the experiments
probe s --replay x.csv
probe s --method magic
probe s --method papr => did you mean 'paper'?
probe s timer --plot /no/such/directory
probe s timer --csv /dev/null
probe s --plot /no/such => give an existing directory
probe s --csv /dev/null => give an existing directory

survey --no-page -o x
survey -o - --json
survey --diff one
survey / --diff one two
survey /no/such/directory
survey /dev/null
survey --nonsense

compare
compare {/no/such/file,/,/dev/zero}
";

/// The expected contents of stderr.
#[derive(Clone, Copy)]
enum Says<'a> {
    Anything,
    All(&'a str),
    FirstLine(&'a str),
}

/// The command lines and the expected contents of stderr.
fn rows() -> Vec<(String, Says<'static>)> {
    let mut rows = Vec::new();
    for row in REFUSED.lines().filter(|row| !row.is_empty()) {
        let (line, says) = match (row.split_once(" => "), row.split_once(" == ")) {
            (Some((line, words)), _) => (line, Says::All(words)),
            (_, Some((line, first))) => (line, Says::FirstLine(first)),
            _ => (row, Says::Anything),
        };
        match line.split_once('{').zip(line.split_once('}')) {
            Some(((before, _), (upto, after))) => {
                for one in upto[before.len() + 1..].split(',') {
                    rows.push((format!("{before}{one}{after}"), says));
                }
            }
            None => rows.push((line.to_owned(), says)),
        }
    }
    rows
}

/// The entries of the directory, with the sizes of files.
fn entries(place: &Path) -> BTreeSet<(String, u64)> {
    let entries = fs::read_dir(place).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let metadata = entry.metadata().unwrap();
            let size = if metadata.is_file() {
                metadata.len()
            } else {
                0
            };
            (entry.file_name().into_string().unwrap(), size)
        })
        .collect()
}

fn check(line: &str, says: Says<'_>, place: &Path) {
    let words = line
        .split(' ')
        .map(|word| if word == "''" { "" } else { word });
    let ran = run(fathom(words).current_dir(place)).refused();
    let (first, _) = ran.stderr.split_once('\n').unwrap();
    assert!(first.len() > "fathom: ".len() + 5, "{ran}");
    // The parser of arguments suggests `--` where that does not help.
    assert!(
        !ran.stderr.contains("'-- ") && !ran.stderr.contains("-- --"),
        "{ran}"
    );
    match says {
        Says::Anything => {}
        Says::All(words) => {
            for word in words.split(" && ") {
                assert!(ran.stderr.contains(word), "no {word}: {ran}");
            }
        }
        Says::FirstLine(message) => assert_eq!(first, format!("fathom: {message}"), "{ran}"),
    }
}

#[test]
fn command_lines_are_refused_and_write_nothing() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    file(at("f"), 1);
    file(at("catalog"), 0);
    dir(at("s"));
    symlink("f", at("to-f")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    let before = (entries(place.path()), entries(&at("s")));
    let mut failed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let rows = rows();
    assert!(rows.len() > 200, "{} rows", rows.len());
    for (line, says) in rows {
        let checked = catch_unwind(|| check(&line, says, place.path()));
        let after = (entries(place.path()), entries(&at("s")));
        if checked.is_err() || after != before || fs::read(at("f")).unwrap() != b"x" {
            let command = line.split(' ').next().unwrap().to_owned();
            failed.entry(command).or_default().push(line);
        }
    }
    assert!(failed.is_empty(), "by command: {failed:#?}");
}
