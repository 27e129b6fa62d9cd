import{h as a}from"./chunk-I7N3URB7.js";import"./chunk-MGCUARTM.js";export{a as default};
