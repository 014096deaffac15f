//! `run --budget`: stops a run between rows once so much is spent.

use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::models::Registry;
use crate::report::units::count;
use crate::session::Engine;
use proofmill_base::clock::{Clock, parse_duration};

/// How often it is looked at what is spent.
const TICK: Duration = Duration::from_millis(100);

/// What one `run` may spend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// As it was written.
    text: String,
    /// Tokens that models in folders compute, and that endpoints count in prompts and answers.
    tokens: Option<u64>,
    time: Option<Duration>,
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            "expected `tokens=N`, `time=LENGTH` such as `30m`, or both separated by a comma";
        let mut budget = Self { text: text.to_owned(), tokens: None, time: None };
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or(expected)?;
            let wrong = || format!("`{}` is {:?}; {expected}", key.trim(), value.trim());
            let twice = match key.trim() {
                "tokens" => {
                    let tokens = value.trim().replace('_', "").parse().ok();
                    budget.tokens.replace(tokens.filter(|it| *it > 0).ok_or_else(wrong)?).is_some()
                }
                "time" => {
                    let time = parse_duration(value.trim()).ok_or_else(wrong)?;
                    budget.time.replace(time).is_some()
                }
                other => return Err(format!("unknown budget key `{other}`; {expected}")),
            };
            if twice {
                return Err(format!("`{}` is given twice; {expected}", key.trim()));
            }
        }
        Ok(budget)
    }
}

impl std::fmt::Display for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// What watches over a run.
pub struct Watch {
    task: JoinHandle<()>,
    spent: Arc<OnceLock<String>>,
}

impl Watch {
    /// Stops the run once its budget is spent, as a signal does: what is under way then is answered and recorded.
    pub fn start(
        budget: Budget,
        engine: Arc<Engine>,
        clock: Arc<dyn Clock>,
        stop: CancellationToken,
    ) -> Self {
        let spent = Arc::new(OnceLock::new());
        let reason = Arc::clone(&spent);
        let began = clock.monotonic();
        let task = tokio::spawn(async move {
            loop {
                clock.sleep(TICK).await;
                let time = clock.monotonic().saturating_sub(began);
                if let Some(why) = budget.exceeded(tokens(engine.models()), time) {
                    // No other task writes it.
                    let _ = reason.set(why);
                    stop.cancel();
                    return;
                }
            }
        });
        Self { task, spent }
    }

    /// Ends it; why it stopped the run, if it did.
    pub fn end(self) -> Option<String> {
        self.task.abort();
        self.spent.get().cloned()
    }
}

impl Budget {
    fn exceeded(&self, tokens: u64, time: Duration) -> Option<String> {
        if self.tokens.is_some_and(|most| tokens >= most) {
            return Some(format!("{} tokens were computed or paid for", count(tokens)));
        }
        self.time.filter(|most| time >= *most).map(|_| format!("{} s have passed", time.as_secs()))
    }
}

/// Tokens of all models so far.
fn tokens(models: &Registry) -> u64 {
    let computed = models.computed().map(|(_, it)| it.encoder_rows + it.decoder_rows);
    let remote = models.spent().map(|(_, usage, _)| usage.prompt_tokens + usage.output_tokens);
    computed.chain(remote).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_whole() {
        let budget: Budget = "tokens=1_000_000, time=30m".parse().unwrap();
        assert_eq!(budget.tokens, Some(1_000_000));
        assert_eq!(budget.time, Some(Duration::from_secs(1800)));
        for (text, expected) in [
            ("", "expected `tokens=N`"),
            ("tokens=0", "`tokens` is \"0\""),
            ("time=3", "`time` is \"3\""),
            ("money=3", "unknown budget key `money`"),
            ("tokens=1,tokens=2", "`tokens` is given twice"),
        ] {
            let error = text.parse::<Budget>().unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn the_first_limit_that_is_reached_is_reported() {
        let budget: Budget = "tokens=1000,time=10s".parse().unwrap();
        assert_eq!(budget.exceeded(999, Duration::from_secs(9)), None);
        let tokens = budget.exceeded(1234, Duration::from_secs(20));
        assert_eq!(tokens.as_deref(), Some("1,234 tokens were computed or paid for"));
        let time = budget.exceeded(0, Duration::from_secs(10));
        assert_eq!(time.as_deref(), Some("10 s have passed"));
    }
}
