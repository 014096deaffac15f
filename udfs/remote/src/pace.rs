//! How many attempts are sent at a time to an endpoint that refuses some: halved by a refusal, one more
//! after as many answers as there are places (additive increase, multiplicative decrease). No I/O.

/// Refused rounds without an answer between them after which everybody waits.
const REFUSED_ROUNDS_MAX: u32 = 3;

/// The pace of one endpoint.
#[derive(Debug)]
pub struct Pace {
    places_max: usize,
    /// Attempts at a time now; at least 1.
    places: usize,
    /// Answers since the number of places last changed.
    answers: usize,
    round: Round,
    /// Rounds with a refusal since the last answer.
    refused: u32,
}

/// The attempts that were sent between two refusals: the refusals of one burst count once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round(u64);

/// What a refusal changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slower {
    /// Places less than before.
    pub fewer: usize,
    /// Whether nothing is to be sent before the time that the endpoint asks for.
    pub all_wait: bool,
}

impl Pace {
    /// At most so many attempts at a time, and as many at first.
    pub fn new(places_max: usize) -> Self {
        let places_max = places_max.max(1);
        Self { places_max, places: places_max, answers: 0, round: Round::default(), refused: 0 }
    }

    /// The round of an attempt that is sent now.
    pub fn round(&self) -> Round {
        self.round
    }

    /// Attempts at a time now.
    pub fn places(&self) -> usize {
        self.places
    }

    /// An attempt was answered. True if there is one place more from now on.
    pub fn answered(&mut self) -> bool {
        self.refused = 0;
        if self.places == self.places_max {
            return false;
        }
        self.answers += 1;
        if self.answers < self.places {
            return false;
        }
        self.answers = 0;
        self.places += 1;
        true
    }

    /// An attempt of `round` was refused. `None` if another of its round was refused before.
    pub fn refused(&mut self, round: Round) -> Option<Slower> {
        if round != self.round {
            return None;
        }
        self.round.0 += 1;
        self.answers = 0;
        self.refused += 1;
        let before = self.places;
        self.places = (before / 2).max(1);
        let all_wait = self.refused >= REFUSED_ROUNDS_MAX;
        Some(Slower { fewer: before - self.places, all_wait })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_is_halved_once_and_grows_again_by_one() {
        let mut pace = Pace::new(8);
        let burst = pace.round();
        assert_eq!(pace.refused(burst), Some(Slower { fewer: 4, all_wait: false }));
        assert_eq!((pace.refused(burst), pace.places()), (None, 4));
        let grown: Vec<bool> = (0..9).map(|_| pace.answered()).collect();
        assert_eq!(grown.iter().filter(|more| **more).count(), 2, "after 4 answers, then 5");
        assert!(grown[3] && grown[8]);
        assert_eq!(pace.places(), 6);
    }

    #[test]
    fn several_refused_rounds_without_an_answer_make_all_wait() {
        let mut pace = Pace::new(8);
        let mut refuse = || {
            let round = pace.round();
            pace.refused(round).unwrap()
        };
        assert_eq!(refuse(), Slower { fewer: 4, all_wait: false });
        assert_eq!(refuse(), Slower { fewer: 2, all_wait: false });
        assert_eq!(refuse(), Slower { fewer: 1, all_wait: true });
        assert_eq!(refuse(), Slower { fewer: 0, all_wait: true });
        pace.answered();
        let round = pace.round();
        assert!(!pace.refused(round).unwrap().all_wait);
    }

    proptest! {
        #[test]
        fn there_is_always_a_place_and_never_more_than_allowed(
            most in 1usize..9, refusals in proptest::collection::vec(any::<bool>(), 0..200),
        ) {
            let mut pace = Pace::new(most);
            let mut places = most;
            for refused in refusals {
                match refused {
                    true => {
                        let round = pace.round();
                        places -= pace.refused(round).map_or(0, |slower| slower.fewer);
                    }
                    false => places += usize::from(pace.answered()),
                }
                prop_assert_eq!(pace.places(), places);
                prop_assert!((1..=most).contains(&places));
            }
        }
    }
}
