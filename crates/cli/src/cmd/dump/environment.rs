//! Settings of `fathom dump --restic` from options and from restic's environment variables.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Command, Stdio};
use std::time::Duration;

use gate::Errno;
use gate::fs::{Open, read};
use gate::long::open_long;
use restic::{DeviceIds, RetryLock};
use show::name::printable;
use show::units::duration;

use super::args::Dump as Args;
use crate::date::Zone;
use crate::error::Error;
use crate::out::host;
use crate::out::{silence, write_stderr};

const PASSWORD_COMMAND: &str = "RESTIC_PASSWORD_COMMAND";
const PASSWORD_FILE: &str = "RESTIC_PASSWORD_FILE";
const PASSWORD: &str = "RESTIC_PASSWORD";

/// The value of an environment variable; `None` if the variable is unset or empty.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn text(name: &str) -> Option<String> {
    Some(variable(name)?.to_string_lossy().into_owned())
}

/// The password, and the other options for opening the repository.
pub(super) fn repository_options(args: &Args) -> Result<restic::RepositoryOptions, Error> {
    Ok(restic::RepositoryOptions {
        compression: text("RESTIC_COMPRESSION")
            .map(|it| compression(&it))
            .transpose()?
            .flatten(),
        pack_size: text("RESTIC_PACK_SIZE")
            .map(|it| pack_size(&it))
            .transpose()?,
        password: password(args)?,
        host: host(),
        caches: cache_dir(args),
        key_hint: text("RESTIC_KEY_HINT").unwrap_or_default(),
        device_ids: match args.device_id_for_hardlinks || has_feature(DEVICE_IDS) {
            true => DeviceIds::HardLinks,
            false => DeviceIds::All,
        },
        zone: Some(Zone::local().into_inner()),
        retry: RetryLock {
            most: args.retry_lock.unwrap_or_default(),
            on_wait: Some(warn_of_lock),
        },
        is_dry: args.dry_run,
        on_silence: Some(warn_of_silence),
    })
}

/// The host name that is recorded in the snapshot.
pub(super) fn snapshot_host(args: &Args) -> String {
    let own = args.host.clone().filter(|host| !host.is_empty());
    own.or_else(|| text("RESTIC_HOST")).unwrap_or_else(host)
}

const DEVICE_IDS: &str = "device-id-for-hardlinks";

/// Whether `RESTIC_FEATURES` enables a feature: as `NAME`, or as `NAME=true`.
fn has_feature(name: &str) -> bool {
    text("RESTIC_FEATURES").is_some_and(|features| is_on(&features, name))
}

fn is_on(features: &str, name: &str) -> bool {
    // Values that restic accepts as true, with Go's strconv.ParseBool.
    let is_true = |value: &str| matches!(value, "" | "1" | "t" | "T" | "true" | "TRUE" | "True");
    let parts = features
        .split(',')
        .map(|it| it.split_once('=').unwrap_or((it, "")));
    let mut values = parts.filter(|(it, _)| it.trim() == name);
    values
        .next_back()
        .is_some_and(|(_, value)| is_true(value.trim()))
}

fn warn_of_silence(host: &str, since: Duration) {
    write_stderr(&format!("fathom: {}\n", silence(host, since)));
}

fn warn_of_lock(error: &restic::Error, most: Duration) {
    let error = error.to_string();
    let (error, most) = (printable(error.as_bytes()), duration(most.as_secs_f64()));
    write_stderr(&format!(
        "fathom: the repository is {error}; waiting for up to {most}\n"
    ));
}

/// The zstd level that is nearest to a compression mode of restic; 0 stores data uncompressed, and
/// `None` uses the default of the repository.
fn compression(mode: &str) -> Result<Option<i32>, Error> {
    Ok(Some(match mode {
        "auto" => return Ok(None),
        "off" => 0,
        "fastest" => 1,
        "better" => 7,
        "max" => 11,
        _ => {
            let message = format!(
                "'{}' in RESTIC_COMPRESSION is no mode",
                printable_text(mode)
            );
            return Err(
                Error::new(message).with_hint("set it to auto, off, fastest, better or max")
            );
        }
    }))
}

/// Parses the size of pack files, in MiB.
fn pack_size(size: &str) -> Result<u32, Error> {
    match size.parse() {
        Ok(size @ 4..=128) => Ok(size),
        _ => {
            let message = format!("'{}' in RESTIC_PACK_SIZE is no size", printable_text(size));
            Err(Error::new(message).with_hint("set it to a number of MiB from 4 to 128"))
        }
    }
}

fn printable_text(text: &str) -> std::borrow::Cow<'_, str> {
    printable(text.as_bytes())
}

/// The directory in which restic keeps its caches.
fn cache_dir(args: &Args) -> Option<Vec<u8>> {
    let below = |name, rest: &str| {
        let mut dir = variable(name)?;
        dir.push(rest);
        Some(dir)
    };
    let dir = || {
        let own = args
            .cache_dir
            .clone()
            .or_else(|| variable("RESTIC_CACHE_DIR"));
        own.or_else(|| below("XDG_CACHE_HOME", "/restic"))
            .or_else(|| below("HOME", "/.cache/restic"))
    };
    let dir = if args.no_cache { None } else { dir() };
    Some(dir?.into_encoded_bytes())
}

fn password(args: &Args) -> Result<Vec<u8>, Error> {
    let file = args.password_file.clone();
    let command = args.password_command.clone();
    let file = file.or_else(|| variable(PASSWORD_FILE));
    let command = command.or_else(|| variable(PASSWORD_COMMAND));
    if args.insecure_no_password {
        let given = file.or(command).or_else(|| variable(PASSWORD));
        return match given {
            None => Ok(Vec::new()),
            Some(_) => Err(Error::new("--insecure-no-password excludes a password from a file, a command or a variable")
                .with_hint("omit it, or unset RESTIC_PASSWORD, RESTIC_PASSWORD_FILE and RESTIC_PASSWORD_COMMAND")),
        };
    }
    match (file, command) {
        (Some(_), Some(_)) => Err(Error::new(
            "the password comes from a file and from a command",
        )
        .with_hint(
            "use one of --password-file (RESTIC_PASSWORD_FILE) and --password-command (RESTIC_PASSWORD_COMMAND)",
        )),
        (Some(file), None) => password_in_file(file.as_bytes()),
        (None, Some(command)) => password_of_command(command.as_bytes()),
        (None, None) => variable(PASSWORD).map(OsStringExt::into_vec).ok_or_else(|| {
            Error::new("no password for the repository").with_hint(
                "give --password-file FILE, --password-command COMMAND or --insecure-no-password, or set RESTIC_PASSWORD",
            )
        }),
    }
}

fn password_in_file(file: &[u8]) -> Result<Vec<u8>, Error> {
    let read = read_password(file);
    let password = read.map_err(|e| Error::read("cannot read the password from", file, e, ""))?;
    match password.is_empty() {
        true => Err(Error::new(format!("no password in '{}'", printable(file)))
            .with_hint("give a file with the password of the repository")),
        false => Ok(password),
    }
}

/// Runs a command, and returns the password that it prints. Error messages contain only the name of
/// the program, because its arguments may be secret.
fn password_of_command(command: &[u8]) -> Result<Vec<u8>, Error> {
    const CHECK: &str = "check --password-command or RESTIC_PASSWORD_COMMAND";
    let mut words = split(command)?.into_iter().map(OsString::from_vec);
    let program = words.next().unwrap_or_default();
    let shown = printable(program.as_bytes()).into_owned();
    let mut child = Command::new(program);
    let child = child
        .args(words)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = child.output().map_err(|e| {
        Error::new(format!(
            "cannot run '{shown}', which prints the password: {e}"
        ))
        .with_hint(CHECK)
    })?;
    if !output.status.success() {
        let message = format!(
            "'{shown}', which prints the password, failed: {}",
            output.status
        );
        return Err(Error::new(message).with_hint(CHECK));
    }
    match trim(&output.stdout) {
        b"" => Err(Error::new(format!("'{shown}' printed no password")).with_hint(CHECK)),
        password => Ok(password.into()),
    }
}

/// Splits a command into words like restic: white space, quotation marks and backslashes are
/// separators. Within quotation marks, white space and backslashes are literal, and so is a
/// quotation mark after a backslash.
fn split(command: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let (mut words, mut word) = (Vec::new(), Vec::new());
    let (mut quote, mut last) = (None, 0);
    for &byte in command {
        let is_quote = quote.map_or(matches!(byte, b'"' | b'\''), |open| byte == open);
        let ends = if is_quote && last != b'\\' {
            quote = quote.xor(Some(byte));
            true
        } else {
            last = byte;
            quote.is_none() && (byte == b'\\' || byte.is_ascii_whitespace())
        };
        match ends {
            true if word.is_empty() => {}
            true => words.push(std::mem::take(&mut word)),
            false => word.push(byte),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    match (quote, words.is_empty()) {
        (Some(_), _) => Err(
            Error::new("the password command has an open quotation mark")
                .with_hint("end it with the same quotation mark"),
        ),
        (None, true) => Err(Error::new("the password command is empty")
            .with_hint("give a command that prints the password of the repository")),
        (None, false) => Ok(words),
    }
}

/// Reads a password file, which may be a pipe.
fn read_password(file: &[u8]) -> Result<Vec<u8>, Errno> {
    const LONGEST: usize = 64 << 10;
    let fd = open_long(file, Open::empty())?;
    let (mut bytes, mut have) = (vec![0; LONGEST], 0);
    while have < LONGEST {
        match read(&fd, &mut bytes[have..]) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(Errno::EINTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(password_in(&bytes[..have]))
}

/// Decodes a password like restic: a byte order mark selects the encoding, and white space around
/// the password is trimmed.
fn password_in(bytes: &[u8]) -> Vec<u8> {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let (units, _) = bytes.as_chunks();
        let units: Vec<u16> = units.iter().map(|&pair| unit(pair)).collect();
        String::from_utf16_lossy(&units).into_bytes()
    };
    let bytes = match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => rest.to_vec(),
        _ => bytes.to_vec(),
    };
    trim(&bytes).into()
}

fn trim(bytes: &[u8]) -> &[u8] {
    std::str::from_utf8(bytes).map_or(bytes.trim_ascii(), |text| text.trim().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_those_that_restic_reads() {
        let files: [(&[u8], &str); 7] = [
            (b"", ""),
            (b" a b\n", "a b"),
            (b"\r\na\r\n", "a"),
            (b"a\nb\n", "a\nb"),
            (b"\xef\xbb\xbfa\r\n", "a"),
            (b"\xff\xfea\0\xe4\0\n\0", "a\u{e4}"),
            (b"\xfe\xff\0a\0\xe4\0\n", "a\u{e4}"),
        ];
        for (file, password) in files {
            assert_eq!(password_in(file), password.as_bytes(), "{file:?}");
        }
        assert_eq!(password_in(b" \xe4\n"), b"\xe4");
    }

    #[test]
    fn commands_are_split_where_restic_splits_them() {
        let words = |command: &str| {
            let words = split(command.as_bytes()).map_err(|e| e.to_string())?;
            let words = words
                .into_iter()
                .map(|word| String::from_utf8(word).unwrap());
            Ok::<_, String>(words.collect::<Vec<_>>().join("|"))
        };
        for (command, expected) in [
            ("pass show restic", "pass|show|restic"),
            ("  pass\t show\n", "pass|show"),
            (r#"sh -c 'echo "$A" b'"#, r#"sh|-c|echo "$A" b"#),
            (r#"echo "it's one""#, "echo|it's one"),
            (r#"a"b c"d"#, "a|b c|d"),
            (r"a\ b", "a|b"),
            (r#""a \"b\" c""#, r#"a \"b\" c"#),
            (r#"C:\dir\\file "C:\a b""#, r"C:|dir|file|C:\a b"),
            (r#"echo """#, "echo"),
        ] {
            assert_eq!(words(command).as_deref(), Ok(expected), "{command}");
        }
        for command in ["", " ", "''", "a 'b", "a \"b'"] {
            assert!(words(command).is_err(), "{command}");
        }
    }

    #[test]
    fn features_are_switched_as_in_restic() {
        for (features, expected) in [
            ("device-id-for-hardlinks", true),
            ("a=true, device-id-for-hardlinks=true", true),
            ("device-id-for-hardlinks=1,b", true),
            ("device-id-for-hardlinks=false", false),
            (
                "device-id-for-hardlinks,device-id-for-hardlinks=false",
                false,
            ),
            ("other", false),
        ] {
            assert_eq!(is_on(features, DEVICE_IDS), expected, "{features}");
        }
    }

    #[test]
    fn modes_and_sizes_are_those_of_restic() {
        assert_eq!(compression("auto").ok(), Some(None));
        assert_eq!(compression("off").ok(), Some(Some(0)));
        assert!(compression("MAX").is_err());
        assert_eq!(pack_size("128").ok(), Some(128));
        assert!(
            ["3", "129", "x", ""]
                .iter()
                .all(|it| pack_size(it).is_err())
        );
    }
}
