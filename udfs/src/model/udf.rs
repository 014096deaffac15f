//! The one implementation of DataFusion's asynchronous functions for all model functions.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use proofmill_engine::options::strategy;

use super::arguments::{self, Arguments};
use super::canonical::hex;
use super::columns::{Answered, Row};
use super::counters::{Counters, Watch};
use super::definition::ModelDefinition;
use super::error::{CallError, Failure, ModelError, OptionsError};
use super::functions::DEFINITIONS;
use super::models::Models;
use super::options::Options;
use super::service::{self, Ask};
use super::settings::OnError;
use super::shape::Shape;
use crate::definition::Kind;

/// Every model function over these models, ready to be registered, together with the optimizer rule
/// [`SplitModelCalls`](super::split::SplitModelCalls).
///
/// They are declared volatile though the ledger makes them repeatable: DataFusion would otherwise
/// move a filter below the projection that computes its column, into joins and scans, where no model
/// can be called.
pub fn model_functions(models: &Arc<Models>) -> Vec<Arc<ScalarUDF>> {
    let function = |definition: &&'static ModelDefinition| {
        let any_arguments =
            TypeSignature::OneOf(vec![TypeSignature::VariadicAny, TypeSignature::Nullary]);
        let function = ModelFunction {
            definition,
            models: Arc::clone(models),
            signature: Signature::new(any_arguments, Volatility::Volatile),
        };
        Arc::new(AsyncScalarUDF::new(Arc::new(function)).into_scalar_udf())
    };
    DEFINITIONS.iter().map(function).collect()
}

#[derive(Debug)]
struct ModelFunction {
    definition: &'static ModelDefinition,
    models: Arc<Models>,
    signature: Signature,
}

// A definition is known by its name; the same name over other models is another function.
impl PartialEq for ModelFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && Arc::ptr_eq(&self.models, &other.models)
    }
}

impl Eq for ModelFunction {}

impl Hash for ModelFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
        Arc::as_ptr(&self.models).hash(state);
    }
}

impl ScalarUDFImpl for ModelFunction {
    fn name(&self) -> &str {
        self.definition.doc.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of `{}` depends on its arguments", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> =
            args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let types = self.definition.doc.fit(&types).map_err(|mismatch| {
            let (function, problem) = (self.definition.doc.name, mismatch.problem);
            CallError::Arguments { function, problem, help: Some(mismatch.help) }
        })?;
        self.check_model(args.scalar_arguments.first().copied().flatten())?;
        // The options are last, and may be left out.
        let at = self.definition.doc.arguments.len() - 1;
        let shape = match types.get(at) {
            None => Shape::default(),
            Some(given) => self.check_options(given, args.scalar_arguments[at])?,
        };
        Ok(Arc::new(Field::new(self.name(), self.definition.result(shape), true)))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("`{}` is asynchronous", self.name())
    }
}

impl ModelFunction {
    fn check_model(&self, name: Option<&ScalarValue>) -> Result<()> {
        let function = self.definition.doc.name;
        let is = match name.map(ScalarValue::try_as_str) {
            None => "varies from row to row",
            Some(Some(Some(name))) => {
                let unknown =
                    |help| CallError::UnknownModel { function, model: name.to_owned(), help };
                return Ok(self.models.find(name).map_err(unknown)?);
            }
            Some(Some(None) | None) => "is NULL",
        };
        let problem = format!("`{function}`: argument `model` {is}");
        let help = Some(format!("expected {}", Kind::Model.expected()));
        Err(CallError::Arguments { function, problem, help }.into())
    }

    /// The shape of the result. Known from the type of a struct and from the value of a
    /// constant text; a text that varies gives one answer per row.
    fn check_options(&self, given: &DataType, constant: Option<&ScalarValue>) -> Result<Shape> {
        let parsed = constant.map(|constant| arguments::options(self.definition.options, constant));
        let refused = |error| CallError::options(self.definition.doc.name, &error);
        let parsed = parsed.transpose().map_err(|(_, error)| refused(error))?;
        match given {
            DataType::Struct(fields) => {
                let names = || fields.iter().map(|field| field.name().as_str());
                let (takes, known) = (self.definition.options, self.definition.options.keys());
                if let Some(key) = names().find(|name| !known.contains(name)) {
                    return Err(refused(takes.unknown(key)).into());
                }
                Ok(Shape::of_keys(names()))
            }
            _ => Ok(parsed.map_or_else(Shape::default, |options| options.shape())),
        }
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for ModelFunction {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let shape = Shape::of_type(args.return_type());
        let arguments = Arguments::read(&self.definition.doc, self.definition.options, &args)?;
        let counters = Watch::of(&args.config_options);
        let rows = self.rows(&arguments, (args.number_rows, shape), &counters).await;
        let rows = rows.map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(ColumnarValue::Array((self.definition.column)(&rows, shape)?))
    }
}

/// A row before requests are sent.
enum Read {
    Settled(Row),
    Requested(Arc<Options>),
}

impl ModelFunction {
    async fn rows(
        &self,
        arguments: &Arguments,
        (count, shape): (usize, Shape),
        counters: &Arc<Counters>,
    ) -> Result<Vec<Row>, ModelError> {
        let (mut read, mut asks) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for row in 0..count {
            read.push(match self.read(arguments, row, shape) {
                Ok(None) => Read::Settled(Row::Null),
                Ok(Some((options, ask))) => {
                    asks.push(ask);
                    Read::Requested(options)
                }
                Err((on_error, failure)) => {
                    counters.failed(1);
                    counters.rows_failed(1);
                    if on_error == OnError::Fail {
                        let (function, model) =
                            (self.definition.doc.name, arguments.model().to_owned());
                        return Err(ModelError::Row { function, model, label: None, failure });
                    }
                    Read::Settled(Row::Failed { digest: None, failure })
                }
            });
        }
        counters.settled(count - asks.len());
        let mut replies = match asks.is_empty() {
            true => Vec::new(),
            false => {
                let function = self.definition.doc.name;
                let opened = self.models.open(function, arguments.model()).await?;
                service::answer(&self.models, &opened, function, asks, counters).await?
            }
        }
        .into_iter();
        let rows = read.into_iter().filter_map(|read| match read {
            Read::Settled(row) => Some(row),
            Read::Requested(options) => replies.next().map(|reply| {
                let (digest, request) = (hex(&reply.key), reply.request);
                match reply.result {
                    Ok(answer) => Row::Answered(Answered { digest, options, request, answer }),
                    Err(failure) => Row::Failed { digest: Some(digest), failure },
                }
            }),
        });
        Ok(rows.collect())
    }

    /// The request of a row; `None` if a NULL makes the result NULL.
    #[expect(clippy::type_complexity, reason = "a row's three fates, taken apart at once")]
    fn read(
        &self,
        arguments: &Arguments,
        row: usize,
        shape: Shape,
    ) -> Result<Option<(Arc<Options>, Ask)>, (OnError, Failure)> {
        let invalid = |error: OptionsError| Failure::invalid(error.in_one_line());
        let options =
            arguments.options(row).map_err(|(on_error, error)| (on_error, invalid(error)))?;
        let answers = strategy(&options.generate).answers();
        if answers > 1 && !shape.list {
            return Err((options.on_error, invalid(OptionsError::Several(answers))));
        }
        if let Some(option) = shape.lacks(options.shape()) {
            return Err((options.on_error, invalid(OptionsError::NoField(option))));
        }
        let request = (self.definition.request)(arguments, row, &options);
        let request = request.map_err(|failure| (options.on_error, failure))?;
        Ok(request.map(|request| {
            let (on_error, replay) = (options.on_error, options.replay);
            (options, Ask { request, on_error, replay })
        }))
    }
}
