"""The public names of the package, all in one place; `jaxkick` hands them on."""

from jaxkick._parameters import AbstractParameter as AbstractParameter
from jaxkick._parameters import Fixed as Fixed
from jaxkick._parameters import Ordered as Ordered
from jaxkick._parameters import Positive as Positive
from jaxkick._parameters import Real as Real
from jaxkick._parameters import Tied as Tied
from jaxkick.counts import CountsPrediction as CountsPrediction
from jaxkick.dataset import Dataset as Dataset
from jaxkick.diagnosis import Finding as Finding
from jaxkick.inference import ExpectationPropagation as ExpectationPropagation
from jaxkick.inference import InferenceError as InferenceError
from jaxkick.inference import Result as Result
from jaxkick.inference import ReverseKL as ReverseKL
from jaxkick.learning import History as History
from jaxkick.learning import learn as learn
from jaxkick.learning import suggest_model as suggest_model
from jaxkick.model import Model as Model
from jaxkick.posterior import Posterior as Posterior
from jaxkick.posterior import infer as infer
from jaxkick.posterior import log_marginal_likelihood as log_marginal_likelihood
from jaxkick.prediction import Prediction as Prediction
from jaxkick.ranking import Scale as Scale
from jaxkick.scores import Scores as Scores
from jaxkick.storage import load as load
from jaxkick.storage import save as save
from jaxkick.stream import Stream as Stream
