use super::*;

/// A recorder of a process that starts like a shell.
fn recorder() -> Recorder {
    let mut recorder = recorder_with_path(b"/usr/local/bin:/usr/bin");
    call(&mut recorder, 1, "execve", b"/bin/dash", 0);
    recorder
}

fn recorder_with_path(path: &[u8]) -> Recorder {
    let inherited = InheritedFiles {
        cwd: Some(b"/work".to_vec()),
        ..InheritedFiles::default()
    };
    let environment = Environment {
        path: Some(path.to_vec()),
        ..Environment::default()
    };
    let mut recorder = Recorder::new(inherited, environment);
    recorder.exec(1, b"/bin/dash");
    recorder
}

fn call(recorder: &mut Recorder, pid: u32, name: &str, path: &[u8], result: i64) {
    let at_fdcwd = -100_i64 as u64;
    let syscall = syscalls::by_name(name).unwrap();
    let args = if syscall.name.ends_with("at") {
        [at_fdcwd, 0, 0, 0, 0, 0]
    } else {
        [0; 6]
    };
    let call = Call {
        pid,
        tid: pid,
        number: syscall.number,
        args,
        name: Some(path),
        other: None,
        result: Some(result),
        start: 0,
        nanos: 1000,
    };
    recorder.call(&call);
}

fn searches(trace: &Trace) -> Vec<(Kind, String, u64, Option<String>)> {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let each = |search: &Search| {
        (
            search.kind,
            text(&search.name),
            search.misses(),
            search.found.as_deref().map(text),
        )
    };
    trace.searches.iter().map(each).collect()
}

#[test]
fn the_child_of_a_shell_ends_its_search() {
    let mut recorder = recorder();
    call(&mut recorder, 1, "newfstatat", b"/usr/local/bin/ls", -2);
    call(&mut recorder, 1, "newfstatat", b"/usr/bin/ls", 0);
    recorder.fork(&Fork::process(1, 2));
    recorder.exec(2, b"/usr/bin/ls");
    call(&mut recorder, 2, "execve", b"/usr/bin/ls", 0);
    call(&mut recorder, 2, "openat", b"/etc/ld.so.cache", 3);
    recorder.exit(2, 2);
    recorder.exit(1, 1);
    let trace = recorder.finish();
    let path: Vec<_> = searches(&trace)
        .into_iter()
        .filter(|search| search.0 == Kind::Path)
        .collect();
    assert_eq!(
        path,
        [(
            Kind::Path,
            "ls".to_owned(),
            1,
            Some("/usr/bin/ls".to_owned())
        )]
    );
    assert_eq!(
        trace.totals,
        Totals {
            lookups: 5,
            misses: 1,
            nanos: 1000
        }
    );
    let bin = &trace
        .directories
        .iter()
        .find(|(dir, _)| dir == b"/usr/bin")
        .unwrap()
        .1;
    assert_eq!(bin.counts.get(Kind::Path), Count { hits: 2, misses: 0 });
    let used = &trace.programs[..];
    assert_eq!(
        used,
        [(
            Program {
                name: b"ls".to_vec(),
                found: Some(b"/usr/bin/ls".to_vec())
            },
            ProgramUse {
                times: 1,
                misses: 1
            }
        )]
    );
}

#[test]
fn a_search_continues_after_permission_is_denied() {
    let mut recorder = recorder();
    call(&mut recorder, 1, "newfstatat", b"/usr/local/bin/ls", -13);
    call(&mut recorder, 1, "newfstatat", b"/usr/bin/ls", 0);
    let trace = recorder.finish();
    let path: Vec<_> = searches(&trace)
        .into_iter()
        .filter(|search| search.0 == Kind::Path)
        .collect();
    assert_eq!(
        path,
        [(
            Kind::Path,
            "ls".to_owned(),
            0,
            Some("/usr/bin/ls".to_owned())
        )]
    );
    assert_eq!((trace.totals.lookups, trace.totals.misses), (3, 0));
}

#[test]
fn a_path_that_the_shell_sets_itself_is_recognized_by_its_searches() {
    let mut recorder = recorder();
    for dir in ["/a", "/b", "/c"] {
        call(
            &mut recorder,
            1,
            "newfstatat",
            format!("{dir}/none").as_bytes(),
            -2,
        );
    }
    call(&mut recorder, 1, "newfstatat", b"/etc/profile", -2);
    let trace = recorder.finish();
    assert_eq!(searches(&trace), [(Kind::Path, "none".to_owned(), 3, None)]);
    let kind = |dir: &str| {
        trace
            .directories
            .iter()
            .find(|(name, _)| name == dir.as_bytes())
            .unwrap()
            .1
            .kind()
    };
    assert_eq!(
        (kind("/a"), kind("/c"), kind("/etc")),
        (Kind::Path, Kind::Path, Kind::Other)
    );
}

#[test]
fn the_same_name_again_from_the_beginning_is_another_search() {
    let mut recorder = recorder();
    for _ in 0..3 {
        call(&mut recorder, 1, "newfstatat", b"/usr/local/bin/none", -2);
        call(&mut recorder, 1, "newfstatat", b"/usr/bin/none", -2);
    }
    assert_eq!(recorder.finish().searches.len(), 3);
}

#[test]
fn a_duplicate_directory_in_path_does_not_begin_another_search() {
    let mut recorder = recorder_with_path(b"/a:.:/b/:/a//:");
    for _ in 0..2 {
        for dir in ["/a", ".", "/b", "/a", "."] {
            call(
                &mut recorder,
                1,
                "newfstatat",
                format!("{dir}/none").as_bytes(),
                -2,
            );
        }
    }
    let searches = searches(&recorder.finish());
    assert_eq!(searches, vec![(Kind::Path, "none".to_owned(), 5, None); 2]);
}

#[test]
fn relative_and_empty_names_count_for_the_working_directory() {
    let mut recorder = recorder();
    call(&mut recorder, 1, "newfstatat", b"sub/x", -2);
    call(&mut recorder, 1, "newfstatat", b"", -2);
    let trace = recorder.finish();
    let misses: Vec<(&[u8], u64)> = trace
        .directories
        .iter()
        .map(|(dir, directory)| (&dir[..], directory.counts.total().misses))
        .filter(|(_, misses)| *misses > 0)
        .collect();
    assert_eq!(misses, [(&b"/work"[..], 1), (b"/work/sub", 1)]);
}
