//! `run --budget`: stops a run between rows once so much is spent.

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::models::Registry;
use crate::report::units::count;
use crate::session::Engine;
use proofmill_base::clock::{Clock, parse_duration};
use proofmill_remote::Money;
use proofmill_remote::budget::Allowance;
use proofmill_settings::endpoint::Amount;

/// How often it is looked at what is spent.
const TICK: Duration = Duration::from_millis(100);

/// What one `run` may spend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// As it was written.
    text: String,
    /// Tokens that models in folders compute, and that endpoints count in prompts and answers.
    tokens: Option<u64>,
    /// HTTP requests to endpoints, repeated ones included.
    requests: Option<u64>,
    /// In the currency of the models' `prices`.
    money: Option<Money>,
    time: Option<Duration>,
}

impl Budget {
    /// Whether it can bound a run whose requests workers answer.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn fits_workers(&self) -> Result<(), String> {
        match (self.tokens, self.requests, &self.money) {
            (None, None, None) => Ok(()),
            _ => Err("a budget of requests, tokens or money does not bound what workers spend"
                .to_owned()),
        }
    }
}

/// What a run has spent so far.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    tokens: u64,
    money: Money,
    time: Duration,
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected `tokens=N`, `requests=N`, `money=AMOUNT`, `time=LENGTH` such as `30m`, or several \
                        separated by commas";
        let mut budget =
            Self { text: text.to_owned(), tokens: None, requests: None, money: None, time: None };
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or(expected)?;
            let wrong = || format!("`{}` is {:?}; {expected}", key.trim(), value.trim());
            let twice = match key.trim() {
                "tokens" | "requests" => {
                    let number = value.trim().replace('_', "").parse().ok();
                    let number = number.filter(|it| *it > 0).ok_or_else(wrong)?;
                    let is_tokens = key.trim() == "tokens";
                    let limit = if is_tokens { &mut budget.tokens } else { &mut budget.requests };
                    limit.replace(number).is_some()
                }
                "money" => {
                    let amount = value.trim().parse::<f64>().ok();
                    let amount = amount.filter(|amount| *amount > 0.0);
                    let amount = amount.and_then(|amount| Amount::try_from(amount).ok());
                    budget.money.replace(Money::of(amount.ok_or_else(wrong)?)).is_some()
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

/// What the endpoints of a run may still be sent. Each attempt is counted before it is sent, so that requests never exceed their number;
/// tokens and money are those of the answers so far.
#[derive(Debug)]
struct RunAllowance {
    budget: Budget,
    taken: AtomicU64,
    /// The engine whose models ask; it has this allowance.
    engine: Weak<Engine>,
    spent: Arc<OnceLock<String>>,
}

impl Allowance for RunAllowance {
    fn take(&self) -> bool {
        let Some(engine) = self.engine.upgrade() else { return false };
        let spent = Spent::of(engine.models(), Duration::ZERO);
        let why = self.budget.exceeded(&spent).or_else(|| {
            let most = self.budget.requests?;
            let one_more = |taken: u64| (taken < most).then_some(taken + 1);
            let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
            taken.err().map(|taken| format!("{} requests were sent", count(taken)))
        });
        why.is_none_or(|why| {
            // The first reason is the one.
            let _ = self.spent.set(why);
            false
        })
    }
}

/// What watches over a run.
pub struct Watch {
    task: JoinHandle<()>,
    spent: Arc<OnceLock<String>>,
}

impl Watch {
    /// Stops the run once its budget is spent, as a signal does: what is under way then is answered and recorded. A run that needs no more
    /// requests than its budget has ends by itself.
    pub fn start(
        budget: Budget,
        engine: Arc<Engine>,
        clock: Arc<dyn Clock>,
        stop: CancellationToken,
    ) -> Self {
        let spent = Arc::new(OnceLock::new());
        let reason = Arc::clone(&spent);
        engine.models().limit(Arc::new(RunAllowance {
            budget: budget.clone(),
            taken: AtomicU64::new(0),
            engine: Arc::downgrade(&engine),
            spent: Arc::clone(&spent),
        }));
        let began = clock.monotonic();
        let task = tokio::spawn(async move {
            loop {
                clock.sleep(TICK).await;
                let time = clock.monotonic().saturating_sub(began);
                if let Some(why) = budget.exceeded(&Spent::of(engine.models(), time)) {
                    let _ = reason.set(why);
                }
                if reason.get().is_some() {
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
    /// So many requests and no more.
    pub fn of_requests(most: u64) -> Self {
        let text = format!("requests={most}");
        Self { text, tokens: None, requests: Some(most), money: None, time: None }
    }

    /// Why it says nothing of the models of a run, if it does not: a limit of money needs prices.
    pub fn is_blind(&self, models: &Registry) -> bool {
        self.money.is_some() && !models.has_prices()
    }

    fn exceeded(&self, spent: &Spent) -> Option<String> {
        if self.tokens.is_some_and(|most| spent.tokens >= most) {
            return Some(format!("{} tokens were computed or paid for", count(spent.tokens)));
        }
        if self.money.is_some_and(|most| spent.money >= most) {
            return Some(format!("{} were spent", spent.money));
        }
        let is_late = self.time.is_some_and(|most| spent.time >= most);
        is_late.then(|| format!("{} s have passed", spent.time.as_secs()))
    }
}

impl Spent {
    /// By all models so far.
    fn of(models: &Registry, time: Duration) -> Self {
        let mut spent = Self { time, ..Self::default() };
        spent.tokens = models.computed().map(|(_, it)| it.encoder_rows + it.decoder_rows).sum();
        for (_, usage, cost) in models.spent() {
            spent.tokens += usage.prompt_tokens + usage.output_tokens;
            spent.money = Money(spent.money.0 + cost.unwrap_or_default().0);
        }
        spent
    }
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
            ("money=0", "`money` is \"0\""),
            ("requests=x", "`requests` is \"x\""),
            ("euros=3", "unknown budget key `euros`"),
            ("tokens=1,tokens=2", "`tokens` is given twice"),
        ] {
            let error = text.parse::<Budget>().unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn the_first_limit_that_is_reached_is_reported() {
        let budget: Budget = "tokens=1000,time=10s,requests=5,money=0.02".parse().unwrap();
        let of = |tokens, cents: u64, seconds| {
            let money = Money::of(Amount::of_millionths(cents * 10_000));
            let time = Duration::from_secs(seconds);
            budget.exceeded(&Spent { tokens, money, time })
        };
        assert_eq!(of(999, 1, 9), None);
        let tokens = of(1234, 9, 20);
        assert_eq!(tokens.as_deref(), Some("1,234 tokens were computed or paid for"));
        assert_eq!(of(0, 3, 0).as_deref(), Some("0.03 were spent"));
        assert_eq!(of(0, 0, 10).as_deref(), Some("10 s have passed"));
    }
}
