// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Pinocchio's functions for native.cpp. They read arrays of the caller and return Pinocchio's own, so
// that nothing is copied. pinocchio_rnea_derivatives returns the derivative with respect to q.
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/rnea-derivatives.hpp>
#include <pinocchio/algorithm/rnea.hpp>
#include <pinocchio/multibody.hpp>
#include <pinocchio/serialization.hpp>

namespace {

pinocchio::Model model;
pinocchio::Data data;

using Vector = Eigen::Map<const Eigen::VectorXd>;

}  // namespace

int pinocchio_load(const char * path)
{
  model.loadFromText(path);
  data = pinocchio::Data(model);
  return model.nv;
}

const double * pinocchio_rnea(const double * q, const double * v, const double * a)
{
  const int n = model.nv;
  return pinocchio::rnea(model, data, Vector(q, n), Vector(v, n), Vector(a, n)).data();
}

const double * pinocchio_aba(const double * q, const double * v, const double * tau)
{
  const int n = model.nv;
  return pinocchio::aba(model, data, Vector(q, n), Vector(v, n), Vector(tau, n)).data();
}

const double * pinocchio_crba(const double * q, const double *, const double *)
{
  return pinocchio::crba(model, data, Vector(q, model.nv)).data();
}

const double * pinocchio_rnea_derivatives(const double * q, const double * v, const double * a)
{
  const int n = model.nv;
  pinocchio::computeRNEADerivatives(model, data, Vector(q, n), Vector(v, n), Vector(a, n));
  return data.dtau_dq.data();
}
