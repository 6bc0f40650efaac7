from hyperscale.planner.assign.assign_numpy import SumSearch as SumSearch
from hyperscale.planner.assign.pipe_numpy import PipeSearch as PipeSearch
