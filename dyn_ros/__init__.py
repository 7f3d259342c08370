"""dyn_ros: a robot's dynamics as it moves."""
import pkgutil

# The generated msg and srv modules are installed beside this file; imported from
# the source tree, they are found in the installed copy instead.
__path__ = pkgutil.extend_path(__path__, __name__)
