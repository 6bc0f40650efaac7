from hyperscale.plan.tasks.assign_numpy import SumSearch as SumSearch
from hyperscale.plan.tasks.pipe_numpy import PipeSearch as PipeSearch
