//! `proofmill teach`: from the arguments to entries of a memory.

use crate::cli::environment::Environment;
use crate::cli::teach::args::{
    Add, Block, Confirm, Import, Negate, Signed, Steer, Teach, Undo, What,
};
use crate::cli::teach::{proof, queries};
use crate::memory::{
    Action, Conflict, Conflicts, Journal, Lesson, MemoryError, Sentence, Taught, read_lessons,
};
use crate::report::units::plural;
use crate::views::memory::{AllTaughtView, ConflictLine, ImportedView, TaughtView};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::{MemoryName, RunId};
use proofmill_base::suggest;
use proofmill_store::Store;

/// The author when none is named.
const UNKNOWN: &str = "unknown";

/// Teaches, or shows what was taught.
pub async fn teach(args: &Teach, environment: &Environment) -> Result<()> {
    let store = environment.host.store().await?;
    let desk = CommandContext { store: &store, environment };
    match &args.what {
        What::Add(args) => desk.add(args).await,
        What::Negate(args) => desk.negate(args).await,
        What::Block(args) => desk.block(args).await,
        What::Confirm(args) => desk.confirm(args).await,
        What::Exclude(args) => {
            desk.steer(args, |fact, question| Action::Exclude { fact, question }).await
        }
        What::Force(args) => {
            desk.steer(args, |fact, question| Action::Force { fact, question }).await
        }
        What::Undo(args) => desk.undo(args).await,
        What::Import(args) => desk.import(args).await,
        What::List(args) => queries::list(args, &store, environment).await,
        What::History(args) => queries::history(args, &store, environment).await,
        What::Conflicts(args) => queries::conflicts(args, &store, environment).await,
        What::Memories => queries::memories(&store, environment).await,
    }
}

/// Where memories are taught.
struct CommandContext<'a> {
    store: &'a Store,
    environment: &'a Environment,
}

impl CommandContext<'_> {
    async fn add(&self, args: &Add) -> Result<()> {
        let (fact, question) = (args.fact.clone(), args.question.clone());
        let action = match args.is_true {
            true => Action::Affirm { fact, question },
            false => Action::Add { fact, question },
        };
        let lesson = self.signed(action, &args.signed).await?;
        self.one(&args.name, lesson, refusing(args.refuse_conflicts)).await
    }

    async fn negate(&self, args: &Negate) -> Result<()> {
        let Negate { fact, instead, question, .. } = args;
        let action = Action::negate(fact.clone(), instead.clone(), question.clone())?;
        let lesson = self.signed(action, &args.signed).await?;
        self.one(&args.name, lesson, refusing(args.refuse_conflicts)).await
    }

    async fn block(&self, args: &Block) -> Result<()> {
        let found = match (&args.hypothesis, args.premises.is_empty()) {
            (Some(_), false) => None,
            _ => self.proof(&args.signed, args.stage.as_deref()).await?,
        };
        let (run, found) = found.unzip();
        let hypothesis = args.hypothesis.clone().or(found.as_ref().map(|it| it.hypothesis.clone()));
        let premises = match found {
            Some(found) if args.premises.is_empty() => found.premises,
            _ => args.premises.clone(),
        };
        let action = Action::block(known(hypothesis, "hypothesis")?, premises)?;
        let lesson = self.signed(action, &args.signed).await?;
        let lesson = Lesson { run: lesson.run.clone().or(run), ..lesson };
        self.one(&args.name, lesson, Conflicts::Show).await
    }

    async fn confirm(&self, args: &Confirm) -> Result<()> {
        let found = match (&args.question, &args.answer, args.premises.is_empty()) {
            (Some(_), Some(_), false) => None,
            _ => self.proof(&args.signed, args.stage.as_deref()).await?,
        };
        let (run, found) = found.unzip();
        let of_proof =
            |part: fn(&proof::TaughtProof) -> Option<Sentence>| found.as_ref().and_then(part);
        let question = args.question.clone().or_else(|| of_proof(|proof| proof.question.clone()));
        let answer = args.answer.clone().or_else(|| of_proof(|proof| proof.answer.clone()));
        let premises = match &found {
            Some(found) if args.premises.is_empty() => found.premises.clone(),
            _ => args.premises.clone(),
        };
        let (question, answer) = (known(question, "question")?, known(answer, "answer")?);
        let action = Action::Confirm { question, answer, premises };
        let lesson = self.signed(action, &args.signed).await?;
        let lesson = Lesson { run: lesson.run.clone().or(run), ..lesson };
        self.one(&args.name, lesson, Conflicts::Show).await
    }

    async fn steer(
        &self,
        args: &Steer,
        action: impl Fn(Sentence, Sentence) -> Action,
    ) -> Result<()> {
        let journal = Journal::open_known(self.store, &args.name).await?;
        if journal.state().fact(&args.fact).is_none() {
            let facts: Vec<String> = journal
                .state()
                .rows()
                .iter()
                .filter_map(|row| row.fact.as_ref())
                .map(Sentence::to_string)
                .collect();
            let near = suggest::nearest(args.fact.as_str(), facts.iter().map(String::as_str));
            let near = near.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
            let remark = format!("the memory `{}` does not hold this fact{near}", args.name);
            self.environment.output.remark(&remark);
        }
        let action = action(args.fact.clone(), args.question.clone());
        let lesson = self.signed(action, &args.signed).await?;
        self.one(&args.name, lesson, Conflicts::Show).await
    }

    async fn undo(&self, args: &Undo) -> Result<()> {
        let mut journal = Journal::open_known(self.store, &args.name).await?;
        let mut lessons = Vec::new();
        for entry in &args.entries {
            lessons.push(self.signed(Action::Undo { entry: *entry }, &args.signed).await?);
        }
        journal.rehearse(&lessons, Conflicts::Show).map_err(|(_, error)| *error)?;
        let mut all = Vec::new();
        for lesson in &lessons {
            let taught = journal.teach(lesson, Conflicts::Show).await?;
            self.remark(&args.name, &taught);
            all.push(TaughtView::of(&args.name, lesson, &taught));
        }
        self.environment.output.view(&AllTaughtView(all))
    }

    async fn import(&self, args: &Import) -> Result<()> {
        let path = args.file.display().to_string();
        let (places, lessons): (Vec<String>, Vec<Lesson>) =
            read_lessons(&path, author(&args.author))?.into_iter().unzip();
        let conflicts = refusing(args.refuse_conflicts);
        let mut journal = self.open(&args.name).await?;
        journal.rehearse(&lessons, conflicts).map_err(|(at, error)| MemoryError::Line {
            place: places[at].clone(),
            reason: error.to_string(),
            help: error.hint(),
        })?;
        let (mut added, mut known, mut found) = (Vec::new(), 0, Vec::new());
        for lesson in &lessons {
            match journal.teach(lesson, conflicts).await? {
                Taught::Entry { seq, conflicts } => {
                    self.warn(&conflicts);
                    added.push(seq);
                    found.extend(conflicts.iter().map(|it| ConflictLine::of(seq, it)));
                }
                Taught::Known { .. } => known += 1,
            }
        }
        let output = &self.environment.output;
        let memory = args.name.clone();
        output.view(&ImportedView { memory, entries: added, known, conflicts: found })?;
        if known > 0 && !output.json {
            output.remark(format!("{} already known", plural(known, "lesson")));
        }
        Ok(())
    }

    /// Teaches one lesson and says what became of it.
    async fn one(&self, name: &MemoryName, lesson: Lesson, conflicts: Conflicts) -> Result<()> {
        let mut journal = self.open(name).await?;
        let taught = journal.teach(&lesson, conflicts).await?;
        self.environment.output.view(&TaughtView::of(name, &lesson, &taught))?;
        self.remark(name, &taught);
        Ok(())
    }

    /// Opens a memory, which may be a new one.
    async fn open(&self, name: &MemoryName) -> Result<Journal> {
        match Journal::open_known(self.store, name).await {
            Err(MemoryError::Unknown { near, .. }) => {
                let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                self.environment.output.remark(format!("the memory `{name}` is new{near}"));
                Ok(Journal::open(self.store, name).await?)
            }
            journal => Ok(journal?),
        }
    }

    /// What people should know of what became of a lesson.
    fn remark(&self, name: &MemoryName, taught: &Taught) {
        match taught {
            Taught::Entry { conflicts, .. } => self.warn(conflicts),
            Taught::Known { seq } => {
                let text = format!("nothing new: entry {seq} of `{name}` already says so");
                self.environment.output.remark(text);
            }
        }
    }

    fn warn(&self, conflicts: &[Conflict]) {
        for conflict in conflicts {
            let text =
                format!("{}: \"{}\" and {}", conflict.clash, conflict.fact, conflict.other());
            self.environment.output.remark(&text);
        }
    }

    /// The proof that prompted a lesson.
    async fn proof(
        &self,
        signed: &Signed,
        stage: Option<&str>,
    ) -> Result<Option<(RunId, proof::TaughtProof)>> {
        let Some(id) = &signed.proof else { return Ok(None) };
        let run = signed.run.as_deref();
        proof::find(id, run, stage, self.store, self.environment).await.map(Some)
    }

    async fn signed(&self, action: Action, signed: &Signed) -> Result<Lesson> {
        let run = match &signed.run {
            Some(run) => Some(self.environment.run(self.store, Some(run)).await?.run),
            None => None,
        };
        Ok(Lesson {
            action,
            author: author(&signed.author).to_owned(),
            reason: signed.reason.clone(),
            proof: signed.proof.clone(),
            run,
        })
    }
}

fn author(named: &str) -> &str {
    match named.trim() {
        "" => UNKNOWN,
        named => named,
    }
}

fn refusing(refuse: bool) -> Conflicts {
    if refuse { Conflicts::Refuse } else { Conflicts::Show }
}

/// A part of a lesson that neither an option nor the proof gives.
fn known(value: Option<Sentence>, what: &str) -> Result<Sentence> {
    value.ok_or_else(|| {
        Error::new(ErrorKind::Usage, format!("the {what} is missing"))
            .with_hint(format!("give it with `--{what}`"))
    })
}
