# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What touches a robot: external efforts, wrenches, contacts."""
from .isolation import IsolatedContact as IsolatedContact
from .isolation import isolate_contact as isolate_contact
from .wrenches import ExternalWrench as ExternalWrench
from .wrenches import ExternalWrenches as ExternalWrenches
from .wrenches import external_wrench as external_wrench
from .wrenches import external_wrenches as external_wrenches

__all__ = ["ExternalWrench", "ExternalWrenches", "IsolatedContact", "external_wrench",
           "external_wrenches", "isolate_contact"]
