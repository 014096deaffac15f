//! Group commit: what is requested of the disk, in which order, before any caller is answered.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use object_store::{PutPayload, PutResult};
use tokio::sync::oneshot;

use crate::disk::{Disk, RealDisk};
use crate::flusher::{Content, Flusher, Job};
use proofmill_base::rng::SeededRng;

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Write { file: PathBuf, durable: bool },
    Name { file: PathBuf, to: PathBuf },
    SyncDir(PathBuf),
    SyncAll,
}

type Answer = object_store::Result<PutResult>;

#[derive(Debug, Default)]
struct Seen {
    steps: Vec<Step>,
    /// Callers; none may receive success while the disk is still at work.
    callers: Vec<(oneshot::Receiver<Answer>, Option<Answer>)>,
    /// Numbers of the flushes that fail, counted from 1.
    failing: Vec<usize>,
    flushes: usize,
}

/// A real disk that records its calls and fails on request.
#[derive(Clone, Debug)]
struct WatchedDisk {
    disk: Arc<RealDisk>,
    seen: Arc<Mutex<Seen>>,
}

impl WatchedDisk {
    fn see(&self, step: Step) -> io::Result<()> {
        let mut seen = self.seen.lock().unwrap();
        for (waiting, answer) in &mut seen.callers {
            *answer = answer.take().or_else(|| waiting.try_recv().ok());
            assert!(!matches!(answer, Some(Ok(_))), "acknowledged before {step:?}");
        }
        let is_flush = matches!(step, Step::SyncAll | Step::SyncDir(_));
        seen.steps.push(step);
        seen.flushes += usize::from(is_flush);
        if is_flush && seen.failing.contains(&seen.flushes) {
            return Err(io::Error::other("EIO"));
        }
        Ok(())
    }
}

impl Disk for WatchedDisk {
    fn ensure_dir(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.disk.ensure_dir(dir)
    }

    fn write(&self, file: &Path, payload: &PutPayload, durable: bool) -> io::Result<()> {
        self.see(Step::Write { file: file.to_owned(), durable })?;
        self.disk.write(file, payload, durable)
    }

    fn link(&self, file: &Path, to: &Path) -> io::Result<()> {
        self.see(Step::Name { file: file.to_owned(), to: to.to_owned() })?;
        self.disk.link(file, to)
    }

    fn rename(&self, file: &Path, to: &Path) -> io::Result<()> {
        self.see(Step::Name { file: file.to_owned(), to: to.to_owned() })?;
        self.disk.rename(file, to)
    }

    fn unlink(&self, file: &Path) -> io::Result<()> {
        self.disk.unlink(file)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.see(Step::SyncDir(dir.to_owned()))
    }

    fn sync_all(&self) -> io::Result<()> {
        self.see(Step::SyncAll)
    }

    fn can_sync_all(&self, _dirs: &[PathBuf]) -> bool {
        true
    }
}

struct Bench {
    _folder: tempfile::TempDir,
    root: PathBuf,
    seen: Arc<Mutex<Seen>>,
    flusher: Flusher<WatchedDisk>,
}

fn bench() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let disk = WatchedDisk { disk: Arc::new(RealDisk::open(&root).unwrap()), seen: seen.clone() };
    let flusher = Flusher::new(disk, Arc::new(SeededRng::new(1)));
    Bench { _folder: folder, root, seen, flusher }
}

impl Bench {
    /// Commits files of these names as one group and returns the answers.
    fn commit(&mut self, names: &[&str], overwrite: bool) -> Vec<object_store::Result<PutResult>> {
        let mut group = Vec::new();
        for name in names {
            let (done, waiting) = oneshot::channel();
            let content = Content::Bytes(PutPayload::from((*name).to_owned()));
            group.push(Job { content, dest: self.root.join(name), overwrite, done });
            self.seen.lock().unwrap().callers.push((waiting, None));
        }
        self.flusher.commit(group);
        let callers = std::mem::take(&mut self.seen.lock().unwrap().callers);
        let answer = |(mut waiting, early): (oneshot::Receiver<Answer>, Option<Answer>)| {
            early.unwrap_or_else(|| waiting.try_recv().unwrap())
        };
        callers.into_iter().map(answer).collect()
    }

    fn steps(&self) -> Vec<Step> {
        std::mem::take(&mut self.seen.lock().unwrap().steps)
    }

    /// Files below the root, staging files included.
    fn files(&self) -> Vec<PathBuf> {
        let mut dirs = vec![self.root.clone()];
        let mut files = Vec::new();
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { dirs.push(path) } else { files.push(path) }
            }
        }
        files.sort();
        files
    }
}

#[test]
fn a_large_group_shares_two_flushes_and_answers_after_the_second() {
    for overwrite in [false, true] {
        let mut bench = bench();
        let names = ["a/1", "a/2", "b/3", "b/4", "b/5"];
        assert!(bench.commit(&names, overwrite).iter().all(Result::is_ok));
        let steps = bench.steps();
        let flushes: Vec<usize> =
            (0..steps.len()).filter(|at| steps[*at] == Step::SyncAll).collect();
        assert_eq!(flushes, [5, 11], "{steps:?}");
        assert!(steps[..5].iter().all(|step| matches!(step, Step::Write { durable: false, .. })));
        assert!(steps[6..11].iter().all(|step| matches!(step, Step::Name { .. })));
        assert_eq!(bench.files(), names.map(|name| bench.root.join(name)));
    }
}

#[test]
fn a_small_group_flushes_each_file_and_each_new_directory() {
    let mut bench = bench();
    assert!(bench.commit(&["runs/r/log/0"], false)[0].is_ok());
    let steps = bench.steps();
    assert!(matches!(&steps[0], Step::Write { durable: true, .. }));
    assert!(matches!(&steps[1], Step::Name { .. }));
    let dirs = ["runs/r/log", "runs/r", "runs", ""].map(|dir| Step::SyncDir(bench.root.join(dir)));
    assert_eq!(steps[2..], dirs);

    assert!(bench.commit(&["runs/r/log/1"], false)[0].is_ok());
    assert_eq!(bench.steps()[2..], [Step::SyncDir(bench.root.join("runs/r/log"))]);
}

#[test]
fn the_second_of_two_creates_loses_also_within_a_group() {
    let mut bench = bench();
    let answers = bench.commit(&["k", "k", "k", "k", "k"], false);
    assert!(answers[0].is_ok());
    for answer in &answers[1..] {
        assert!(matches!(answer, Err(object_store::Error::AlreadyExists { .. })), "{answer:?}");
    }
    assert_eq!(bench.files(), [bench.root.join("k")]);
}

#[test]
fn a_shared_flush_that_fails_is_made_up_for_one_by_one() {
    let names = ["a", "b", "c", "d"];
    for failing in [1, 2] {
        let mut bench = bench();
        bench.seen.lock().unwrap().failing = vec![failing];
        assert!(bench.commit(&names, false).iter().all(Result::is_ok));
        assert_eq!(bench.files(), names.map(|name| bench.root.join(name)));
        let steps = bench.steps();
        let durable = |step: &&Step| matches!(step, Step::Write { durable: true, .. });
        let rewritten = steps.iter().filter(durable).count();
        assert_eq!(rewritten, if failing == 1 { 4 } else { 0 }, "{steps:?}");
        assert_eq!(steps.last(), Some(&Step::SyncDir(bench.root.clone())), "{steps:?}");
    }
}

#[test]
fn names_that_cannot_be_kept_are_not_acknowledged_and_end_all_writing() {
    for (group, failing) in [(vec!["a", "b", "c", "d"], vec![2, 3]), (vec!["a"], vec![1])] {
        let mut bench = bench();
        assert!(bench.commit(&["before/x"], false)[0].is_ok());
        let flushes = bench.seen.lock().unwrap().flushes;
        bench.seen.lock().unwrap().failing = failing.iter().map(|n| n + flushes).collect();
        for answer in bench.commit(&[group.as_slice(), &["before/x"]].concat(), false) {
            let refused = matches!(answer, Err(object_store::Error::NotSupported { .. }));
            assert!(refused, "{answer:?}");
        }
        let files = bench.files();
        assert_eq!(files.len(), group.len() + 1, "{files:?}");
        assert!(bench.commit(&["later"], true)[0].is_err());
        assert_eq!(bench.files(), files);
    }
}

#[test]
fn symbolic_links_are_refused_and_do_not_harm_their_group() {
    let mut bench = bench();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), bench.root.join("link")).unwrap();
    let answers = bench.commit(&["link/a", "b", "c", "d", "e"], false);
    assert!(matches!(answers[0], Err(object_store::Error::NotSupported { .. })));
    assert!(answers[1..].iter().all(Result::is_ok));
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}
