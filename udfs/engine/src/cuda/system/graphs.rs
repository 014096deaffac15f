//! Which lists of launches are worth a graph. A step of as many texts as an earlier one is the same
//! list; launching it as a graph costs the host next to nothing.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use crate::backend::DeviceError;
use crate::cuda::driver::Launch;

/// Graphs that are kept; the one that was not needed for longest makes room.
const GRAPHS_MAX: usize = 64;
/// Lists that are remembered to have been launched once.
const SEEN_MAX: usize = 256;
/// Shorter lists are launched as they are.
const LAUNCHES_MIN: usize = 8;

/// What launches, records and replays.
pub(super) trait GraphLauncher {
    type Graph;

    /// Launches one after the other.
    fn launch(&self, launches: &[Launch]) -> Result<(), DeviceError>;
    /// Records a list without launching it.
    fn record(&self, launches: &[Launch]) -> Result<Self::Graph, DeviceError>;
    /// Launches what was recorded.
    fn replay(&self, graph: &Self::Graph) -> Result<(), DeviceError>;
}

/// What was done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphCounts {
    /// Lists launched as they are.
    pub plain: u64,
    pub recorded: u64,
    pub replayed: u64,
    /// Why nothing is recorded any more, if so.
    pub given_up: Option<String>,
}

/// The graphs of lists that came again.
pub(super) struct Graphs<G> {
    kept: VecDeque<CachedGraph<G>>,
    /// By their hashes: two lists that share one are recorded a time too early, no more.
    seen: VecDeque<u64>,
    counts: GraphCounts,
    /// Why nothing is recorded any more, if so.
    given_up: Arc<OnceLock<String>>,
}

/// The last of them was used last.
struct CachedGraph<G> {
    launches: Vec<Launch>,
    graph: G,
}

impl<G> Default for Graphs<G> {
    fn default() -> Self {
        Self::telling(Arc::default())
    }
}

impl<G> Graphs<G> {
    /// None yet. When recording fails, `given_up` is set to the reason.
    pub(super) fn telling(given_up: Arc<OnceLock<String>>) -> Self {
        let counts = GraphCounts::default();
        Self { kept: VecDeque::new(), seen: VecDeque::new(), counts, given_up }
    }

    /// What was done so far.
    pub(super) fn counts(&self) -> GraphCounts {
        GraphCounts { given_up: self.given_up.get().cloned(), ..self.counts }
    }

    /// Launches a list, by its graph from the second time on.
    pub(super) fn run<P: GraphLauncher<Graph = G>>(
        &mut self,
        launcher: &P,
        launches: &[Launch],
    ) -> Result<(), DeviceError> {
        self.run_hashed(launcher, launches, hash)
    }

    fn run_hashed<P: GraphLauncher<Graph = G>>(
        &mut self,
        launcher: &P,
        launches: &[Launch],
        hash: impl Fn(&[Launch]) -> u64,
    ) -> Result<(), DeviceError> {
        if launches.len() < LAUNCHES_MIN || self.given_up.get().is_some() {
            return self.plain(launcher, launches);
        }
        // Comparing lists takes a tenth of the time of hashing one: they differ early if they do.
        if let Some(at) = self.kept.iter().rposition(|kept| kept.launches == launches) {
            let kept = self.kept.remove(at);
            self.kept.extend(kept);
        } else if self.seen_before(hash(launches)) {
            match launcher.record(launches) {
                Ok(graph) => self.keep(CachedGraph { launches: launches.to_vec(), graph }),
                Err(error) => {
                    // Only this thread writes there, and only once.
                    let _ = self.given_up.set(error.to_string());
                    self.kept.clear();
                    return self.plain(launcher, launches);
                }
            }
        } else {
            return self.plain(launcher, launches);
        }
        self.counts.replayed += 1;
        self.kept.back().map_or(Ok(()), |kept| launcher.replay(&kept.graph))
    }

    /// Whether a list of this hash was launched once; the first time it is noted, the second time
    /// forgotten.
    fn seen_before(&mut self, hash: u64) -> bool {
        if let Some(at) = self.seen.iter().position(|&seen| seen == hash) {
            self.seen.remove(at);
            return true;
        }
        if self.seen.len() == SEEN_MAX {
            self.seen.pop_front();
        }
        self.seen.push_back(hash);
        false
    }

    fn plain<P: GraphLauncher>(
        &mut self,
        launcher: &P,
        launches: &[Launch],
    ) -> Result<(), DeviceError> {
        self.counts.plain += 1;
        launcher.launch(launches)
    }

    fn keep(&mut self, kept: CachedGraph<G>) {
        self.counts.recorded += 1;
        if self.kept.len() == GRAPHS_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(kept);
    }
}

fn hash(launches: &[Launch]) -> u64 {
    let mut hasher = DefaultHasher::new();
    launches.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use proptest::prelude::*;

    use super::*;
    use crate::cuda::kernel::Kernel;

    /// Remembers what ran; a graph is the list that was recorded.
    #[derive(Default)]
    struct Tape {
        ran: RefCell<Vec<Launch>>,
        fails: Cell<bool>,
    }

    impl GraphLauncher for Tape {
        type Graph = Vec<Launch>;

        fn launch(&self, launches: &[Launch]) -> Result<(), DeviceError> {
            self.ran.borrow_mut().extend_from_slice(launches);
            Ok(())
        }

        fn record(&self, launches: &[Launch]) -> Result<Self::Graph, DeviceError> {
            match self.fails.get() {
                true => Err(DeviceError::Failed("no recording here".to_owned())),
                false => Ok(launches.to_vec()),
            }
        }

        fn replay(&self, graph: &Self::Graph) -> Result<(), DeviceError> {
            self.launch(graph)
        }
    }

    /// List number `id` of `len` launches.
    fn list(id: usize, len: usize) -> Vec<Launch> {
        (0..len).map(|at| Launch::new(Kernel::Norm, [1, 1, 1], 32).u32(id).u32(at)).collect()
    }

    fn lists(ids: &[usize], len: usize) -> Vec<Launch> {
        ids.iter().flat_map(|&id| list(id, len)).collect()
    }

    #[test]
    fn a_list_is_recorded_the_second_time_and_replayed_from_then_on() {
        let (tape, mut graphs) = (Tape::default(), Graphs::default());
        for _ in 0..4 {
            graphs.run(&tape, &list(0, LAUNCHES_MIN)).unwrap();
        }
        let counts = GraphCounts { plain: 1, recorded: 1, replayed: 3, given_up: None };
        assert_eq!(graphs.counts(), counts);
        assert_eq!(*tape.ran.borrow(), lists(&[0; 4], LAUNCHES_MIN));
    }

    #[test]
    fn short_lists_are_launched_as_they_are() {
        let (tape, mut graphs) = (Tape::default(), Graphs::default());
        for _ in 0..3 {
            graphs.run(&tape, &list(0, LAUNCHES_MIN - 1)).unwrap();
        }
        assert_eq!(graphs.counts(), GraphCounts { plain: 3, ..GraphCounts::default() });
    }

    #[test]
    fn after_a_failure_nothing_is_recorded_any_more() {
        let (tape, mut graphs) = (Tape::default(), Graphs::default());
        let mut run = |fails: bool, ids: &[usize]| {
            tape.fails.set(fails);
            ids.iter().for_each(|&id| graphs.run(&tape, &list(id, 9)).unwrap());
        };
        run(false, &[0, 0, 0]);
        run(true, &[1, 1]);
        run(false, &[0, 0, 2, 2]);
        let GraphCounts { plain, recorded, replayed, given_up } = graphs.counts();
        assert_eq!((plain, recorded, replayed), (7, 1, 2));
        assert!(graphs.kept.is_empty(), "what is never used again takes no room");
        assert!(given_up.unwrap().contains("no recording here"));
        assert_eq!(*tape.ran.borrow(), lists(&[0, 0, 0, 1, 1, 0, 0, 2, 2], 9));
    }

    #[test]
    fn the_graph_that_was_not_needed_for_longest_makes_room() {
        let (tape, mut graphs) = (Tape::default(), Graphs::default());
        let mut twice = |id| {
            for _ in 0..2 {
                graphs.run(&tape, &list(id, 8)).unwrap();
            }
            (graphs.kept.len(), graphs.counts().recorded)
        };
        for id in 0..GRAPHS_MAX {
            twice(id);
        }
        assert_eq!(twice(0), (GRAPHS_MAX, GRAPHS_MAX as u64), "the first is still there");
        assert_eq!(twice(GRAPHS_MAX), (GRAPHS_MAX, GRAPHS_MAX as u64 + 1));
        assert_eq!(twice(0), (GRAPHS_MAX, GRAPHS_MAX as u64 + 1), "for it was needed again");
        assert_eq!(twice(1), (GRAPHS_MAX, GRAPHS_MAX as u64 + 2), "the second made room");
    }

    #[test]
    fn what_was_seen_once_is_forgotten_at_last() {
        let (tape, mut graphs) = (Tape::default(), Graphs::default());
        for id in 0..2 * SEEN_MAX {
            graphs.run(&tape, &list(id, 8)).unwrap();
        }
        assert_eq!(graphs.seen.len(), SEEN_MAX);
        graphs.run(&tape, &list(0, 8)).unwrap();
        assert_eq!(graphs.counts().recorded, 0);
    }

    proptest! {
        /// Whatever comes, even where hashes say nothing, what was requested runs, in order.
        #[test]
        fn what_was_requested_runs(
            steps in prop::collection::vec((0_usize..6, 6_usize..10), 1..60),
            hashes in 1_u64..4,
        ) {
            let (tape, mut graphs) = (Tape::default(), Graphs::default());
            let mut requested = Vec::new();
            for (id, len) in steps {
                let launches = list(id, len);
                graphs.run_hashed(&tape, &launches, |list| hash(list) % hashes).unwrap();
                requested.extend(launches);
            }
            prop_assert_eq!(&*tape.ran.borrow(), &requested);
        }
    }
}
