"""The vocabulary: numbers, spatial algebra on them, and the values that people hold."""
from .derivative import TransformDerivative as TransformDerivative
from .derivative import TransformSecondDerivative as TransformSecondDerivative
from .inertia import ArticulatedBodyInertia as ArticulatedBodyInertia
from .inertia import Inertia as Inertia
from .se3 import SE3 as SE3
from .vectors import Force as Force
from .vectors import Motion as Motion
